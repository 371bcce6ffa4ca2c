"""`ScaffoldAgent`: base class of scaffolds, which wrap another agent."""

from __future__ import annotations

import numbers
import weakref
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from agentgym.agents.basic.view import Agent, View
from agentgym.errors import ConfigError, DataError

T = TypeVar("T")
Request = tuple[Agent, View]
"""An agent and the view that it is asked to reply to."""
Program = Generator[Request | str, str, T]
"""The course of an episode. It yields requests, whose replies it is sent, and actions, after which
it goes on at the next turn."""

WRITER = (
    "You help an agent that acts in a text environment. Reply in plain text. Do not reply with an "
    "action."
)


def smoothed_success(successes: float, count: float) -> float:
    """Returns a mean success, counted with one imagined episode of success 1/2."""
    return (successes + 0.5) / (count + 1)


class ScaffoldAgent:
    """Asks an agent for texts and actions, several times per turn if needed.

    A subclass writes the course of an episode as a generator, `program`. The requests of all
    episodes of a batch are sent together. `View.costs` counts the texts as `questions`.

    Args:
        agent: the agent that acts. Texts are written by it too, or by the innermost agent of
            nested scaffolds.
        name: name in reports. Default: the kind of scaffold and the agent's name.

    Attributes:
        rehearses: whether it, or an agent inside, plays on snapshots of the environment.
    """

    kind = "scaffold"
    """The word for `make_agent`."""

    def __init__(self, agent: Agent, *, name: str | None = None):
        self.agent = agent
        self.writer: Agent = getattr(agent, "writer", agent)
        self.name = name or f"{self.kind}:{agent.name}"
        self.wrap = tuple(getattr(agent, "wrap", ()))
        self.rehearses: bool = getattr(agent, "rehearses", False)
        self._programs: weakref.WeakKeyDictionary[View, Program[None]] = weakref.WeakKeyDictionary()

    @property
    def usage(self) -> Any:
        """The tokens that a served model has used, None for other agents."""
        return getattr(self.agent, "usage", None)

    def program(self, view: View) -> Program[None]:
        """Plays an episode and never returns.

        Args:
            view: the episode. Its observation and info are current after every action.
        """
        raise NotImplementedError

    def act(self, views: Sequence[View]) -> list[str]:
        """Returns an action for each view."""
        actions: dict[int, str] = {}
        replies: dict[int, Any] = dict.fromkeys(range(len(views)))
        try:
            while replies:
                asked: dict[int, Request] = {}
                for i, reply in replies.items():
                    step = self._program(views[i]).send(reply)
                    if isinstance(step, str):
                        actions[i] = step
                    else:
                        asked[i] = step
                replies = _ask(asked)
        except BaseException:
            for view in views:  # their programs wait for replies that never come
                self._programs.pop(view, None)
            raise
        return [actions[i] for i in range(len(views))]

    def _program(self, view: View) -> Program[None]:
        if view not in self._programs:
            # A proxy, because the program must not keep its own key alive.
            self._programs[view] = self.program(weakref.proxy(view))
        return self._programs[view]

    def begin(self, view: View, notes: str = "") -> View:
        """Returns a view that begins at the current state, for `play`.

        Args:
            view: the episode.
            notes: text after the instructions.
        """
        return View(
            instructions="\n\n".join([view.instructions, notes] if notes else [view.instructions]),
            observation=view.observation,
            info=view.info,
            rng=view.rng,
            env=view.env,
            costs=view.costs,
        )

    def play(self, view: View, own: View) -> Program[None]:
        """Plays one turn of the agent.

        Args:
            view: the episode.
            own: the agent's view of it, from `begin`.
        """
        action = yield self.agent, own
        yield from self.take(view, own, action)

    def take(self, view: View, own: View, action: str) -> Program[None]:
        """Takes an action, and adds the turn to the agent's view."""
        yield action
        own.history.append((own.observation, action))
        own.observation, own.info = view.observation, view.info

    def write(self, view: View, *parts: str) -> Program[str]:
        """Returns the writer's reply to a text.

        Args:
            view: the episode.
            *parts: paragraphs of the text. The instructions of the environment come first.
        """
        view.costs["questions"] += 1
        text = "\n\n".join(["Instructions of the environment:", view.instructions, *parts])
        info = {"admissible": (), "task": view.info.get("task", "")}
        question = View(WRITER, text, info, view.rng, view.env, costs=view.costs)
        reply = yield self.writer, question
        return reply.strip()


def _ask(asked: dict[int, Request]) -> dict[int, str]:
    """Returns the replies to requests, asked in one batch per agent."""
    replies: dict[int, str] = {}
    for agent in {id(agent): agent for agent, _ in asked.values()}.values():
        mine = [i for i, (other, _) in asked.items() if other is agent]
        replies |= zip(mine, agent.act([asked[i][1] for i in mine]), strict=True)
    return replies


def check_counts(least: int = 1, /, **options: Any) -> None:
    """Raises ConfigError if an option is not an integer of at least `least`."""
    for option, number in options.items():
        if not isinstance(number, numbers.Integral) or int(number) < least:
            raise ConfigError(f"{option} must be at least {least}, got {number!r:.80}.")


def data_file(data: str | None) -> Path | None:
    """Returns the file that an agent keeps from one evaluation to the next, if any.

    Raises:
        ConfigError: if its folder does not exist.
    """
    if data is None:
        return None
    if not Path(data).parent.is_dir():
        raise ConfigError(f"There is no folder {str(Path(data).parent)!r} for data={data}.")
    return Path(data)


def read_data(file: Path | None) -> str | None:
    """Returns the text of an agent's file, or None if there is none yet.

    Raises:
        DataError: if it cannot be read as a text file.
    """
    if file is None or not file.exists():
        return None
    try:
        return file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{file} cannot be read as a text file in UTF-8: {error}") from error


def transcript(history: Sequence[tuple[str, str]], last: str) -> str:
    """Returns observations and actions as text.

    Args:
        history: (observation, action) of each turn.
        last: the observation after them.
    """
    turns = [f"{observation}\n\n> {action}" for observation, action in history]
    return "\n\n".join([*turns, last])
