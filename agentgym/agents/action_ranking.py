"""Rankings of the actions of a state: by a language model, or by a function."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agentgym.agents import make_agent
from agentgym.agents.basic.replies import Replies
from agentgym.agents.basic.view import View
from agentgym.agents.text_model import MODELS
from agentgym.data.episode_text import LONGEST
from agentgym.reading.typography import without_thoughts
from agentgym.utils.importing import imported
from agentgym.utils.returned_numbers import score_of

PROMPT = (
    "You compare the next actions of an agent in an episode. You read the rules, the earlier "
    "actions, the current observation and some numbered actions. Name the action that helps most "
    "to solve the task. Reply with one line, such as\n"
    "best: 2"
)
_CHOICE = re.compile(r"\W*(?:best\W*[:=]\W*)?([0-9]{1,4})[\s*.]*", re.IGNORECASE)

Choose = Callable[[Sequence[str], Sequence[int]], Sequence[int | None]]
"""Maps texts and their numbers of actions to the index of the best action of each, None: unread."""
Rank = Callable[[Sequence[View], Sequence[Sequence[str]]], list[list[float]]]
"""Maps views and the actions of each to the ranks of the actions in [0, 1], 1 for the best."""


@dataclass
class ByChoice:
    """Ranks actions by repeated choice: the best of all, then the best of the others, and so on.

    Source: "Agent Q: Advanced Reasoning and Learning for Autonomous AI Agents" (arXiv 2408.07199,
    section 4.2). A state with n actions takes n - 1 questions. Actions that are left when a choice
    is unreadable share their rank.

    Args:
        choose: chooses an action.

    Attributes:
        unread: number of unreadable choices so far.
        asked: number of choices so far.
    """

    choose: Choose
    unread: int = 0
    asked: int = 0

    def __call__(
        self, views: Sequence[View], actions: Sequence[Sequence[str]]
    ) -> list[list[float]]:
        """Returns the ranks of the actions of each view."""
        levels = [[0.0] * len(some) for some in actions]
        left = {i: list(range(len(some))) for i, some in enumerate(actions) if len(some) > 1}
        while left:
            texts = [
                state_text(views[i], [actions[i][k] for k in rest]) for i, rest in left.items()
            ]
            found = self.choose(texts, [len(rest) for rest in left.values()])
            self.asked += len(found)
            self.unread += sum(best is None for best in found)
            following = {}
            for (i, rest), best in zip(left.items(), found, strict=True):
                if best is None:
                    continue
                levels[i][rest[best]] = float(len(rest))
                if len(rest) > 2:
                    following[i] = rest[:best] + rest[best + 1 :]
            left = following
        return [shares(each) for each in levels]


class ByModel:
    """Chooses actions with a language model, whose replies are kept (see `Replies`).

    Args:
        source: chat:MODEL@URL, policy:FOLDER or model:NAME.

    Raises:
        ConfigError: for anything else.
    """

    def __init__(self, source: str):
        self._replies = Replies(make_agent(source), source, PROMPT)

    def __call__(self, texts: Sequence[str], counts: Sequence[int]) -> list[int | None]:
        """Returns the index of the best action of each text, None if the reply is unreadable.

        Raises:
            ChatError: if a server sends no usable reply. Earlier replies are kept.
        """
        replies = self._replies(texts)
        return [read_choice(reply, count) for reply, count in zip(replies, counts, strict=True)]


def by_function(source: str) -> Rank:
    """Returns the ranking by a function of a view and an action, whose results are compared.

    Args:
        source: "module:function".

    Raises:
        ConfigError: if there is no such function, and by the ranking for a result that is no finite
            number.
    """
    function: Callable[[View, str], float] = imported(source, "judge")

    def rank(views: Sequence[View], actions: Sequence[Sequence[str]]) -> list[list[float]]:
        return [
            shares([score_of(source, function(view, action)) for action in some])
            for view, some in zip(views, actions, strict=True)
        ]

    return rank


def make_ranking(source: str) -> Rank:
    """Returns the ranking of a source: a language model (see `ByModel`), or module:function.

    Raises:
        ConfigError: for anything else.
    """
    return ByChoice(ByModel(source)) if source.startswith(MODELS) else by_function(source)


def state_text(view: View, actions: Sequence[str]) -> str:
    """Returns the text of a state that a model reads: the rules, what happened, and the actions."""
    earlier = [action[:LONGEST] for _, action in view.history]
    parts = [
        view.instructions,
        *(["Earlier actions:", *earlier] if earlier else []),
        f"Observation: {view.observation[:LONGEST]}",
        *(f"{number}. {action[:LONGEST]}" for number, action in enumerate(actions, 1)),
    ]
    return "\n\n".join(part for part in parts if part)


def read_choice(reply: str, count: int) -> int | None:
    """Returns the index of the only action that a reply names, None if it names none or several.

    It is a line with its number, as in `best: 2`. Thoughts between the tags <think> and </think>
    are ignored.
    """
    lines = (line for line in without_thoughts(reply).split("\n") if len(line) <= LONGEST)
    found = {int(match[1]) for line in lines if (match := _CHOICE.fullmatch(line))}
    return found.pop() - 1 if len(found) == 1 and 1 <= max(found) <= count else None


def shares(levels: Sequence[float]) -> list[float]:
    """Returns the share of the other numbers that are lower than each, equal ones half."""
    others = max(len(levels) - 1, 1)
    return [
        (sum(other < each for other in levels) + (levels.count(each) - 1) / 2) / others
        for each in levels
    ]
