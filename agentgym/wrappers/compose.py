"""`Compose`: several tasks, of one or several ids, behind one goal text."""

from __future__ import annotations

import copy
import itertools
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded

from agentgym.agents.text_model import MODELS, text_model
from agentgym.core import UnreadableAction
from agentgym.errors import ConfigError
from agentgym.reading.typography import without_thoughts
from agentgym.snapshots import restore_snapshot, snapshot_of
from agentgym.tasks import Tasks, task_rng
from agentgym.time_step import state_digest
from agentgym.utils.action_parsing import check_text, command
from agentgym.utils.arguments import check_reset_options
from agentgym.wrappers.base import TextWrapper

LISTED = "listed"
PROMPT = (
    "You read the goals of several tasks that an agent solves one after another or in any order. "
    "Write one goal for all of them, as a person would ask for it: a short text on one line that "
    "keeps every detail that is needed, and the order if there is one. Reply with it alone."
)
MOST_TASKS = 9
MOST_COMBINATIONS = 10_000
_GOAL = re.compile(r"^(?:Goal|Task|Instruction|Question): .*", re.MULTILINE)
_ADDRESS = re.compile(r"\s*([1-9])\s*:\s*(.*)", re.DOTALL)

Env = gymnasium.Env[Any, Any]


@dataclass
class _Part:
    """One of the tasks, with the last observation and info, and whether its episode is over."""

    env: Env
    goal: str = ""
    observation: str = ""
    info: dict[str, Any] = field(default_factory=dict)
    over: bool = False

    @property
    def status(self) -> str:
        """The outcome, "" before the end."""
        return "" if not self.over else " (solved)" if self.info["success"] else " (failed)"


class Compose(TextWrapper):
    """Makes an episode of several tasks, whose goals are one text.

    Policies that solve single tasks often fail at their combinations ("Language Model Agents Suffer
    from Compositional Generalization in Web Automation", arXiv 2311.18751). Here, the name of a
    task samples a combination of ids and a task of each. Some combinations are in the test split
    alone. The gap to single tasks is the difference to an evaluation with `n=1`, in which every id
    is in both splits.

    **Actions**: those of the task in play. With `ordered=False`, an action in another task begins
    with its number, such as `2: open door`.

    **Observations**: text: the goals of all tasks with their outcomes, then the observation of the
    task in play. The goal of a task is the lines of its first observation that begin with Goal,
    Task, Instruction or Question and a colon, or the whole observation without one.

    **Rewards**: those of the tasks, divided by `n`.

    **Episode end**: when all tasks have ended. It is a truncation if that of the last one was. The
    option `max_turns` of `reset` limits each task.

    **Info**: the common keys alone. `success`: all tasks are solved. `progress`: the mean of the
    tasks. `reward_terms`: one per task, `task 1`, `task 2`, ... `state_key` includes all tasks and
    the observation. `part` (int: index of the task in play) is added.

    Args:
        env: an environment with text observations and actions, tasks, and AgentGym's info keys.
        n: number of tasks, 1 to 9.
        ids: other ids, from which tasks are sampled as well.
        ordered: whether the tasks are played in their order.
        held_out: share of the combinations of ids that only test tasks have, at least one if there
            are several.
        goal: "listed", or a language model (chat:MODEL@URL, policy:FOLDER, model:NAME) that writes
            one goal from those of the tasks, as AgentSynth (arXiv 2506.14205) summarises subtasks.
            The observation then tells it, and how many tasks are over. Answers of a served model
            are kept in the cache. After an empty one the goals are listed.

    Raises:
        ConfigError: if observations or actions are not text, an id or the tasks are missing, or an
            argument is out of range.
    """

    own_actions = True

    def __init__(
        self,
        env: Env,
        n: int = 2,
        *,
        ids: Sequence[str] = (),
        ordered: bool = True,
        held_out: float = 0.25,
        goal: str = LISTED,
    ):
        ids = (ids,) if isinstance(ids, str) else tuple(ids)
        super().__init__(env, n=n, ids=ids, ordered=ordered, held_out=held_out, goal=goal)
        self._need_text("observations")
        self._need_text("actions")
        if not 1 <= n <= MOST_TASKS:
            raise ConfigError(f"n must be 1 to {MOST_TASKS}, got {n}.")
        if not 0 <= held_out < 1:
            raise ConfigError(f"held_out must be in [0, 1), got {held_out}.")
        if (1 + len(ids)) ** n > MOST_COMBINATIONS:
            raise ConfigError(
                f"{n} tasks of {1 + len(ids)} ids have more than {MOST_COMBINATIONS} combinations. "
                "Take fewer."
            )
        if goal.startswith(MODELS):
            text_model(goal, PROMPT)
        elif goal != LISTED:
            raise ConfigError(
                f"goal must be {LISTED!r}, chat:MODEL@URL, policy:FOLDER or model:NAME, got "
                f"{goal!r:.80}."
            )
        self.n, self.ids, self.ordered, self.held_out = n, ids, ordered, held_out
        self.goal, self._summary = goal, ""
        self._kinds = [env, *map(_made, ids)]
        for each in self._kinds:
            _tasks(each)
        copies = [[copy.deepcopy(each) for each in self._kinds] for _ in range(n - 1)]
        self._places = [self._kinds, *copies]
        self._parts: list[_Part] = []
        self._chosen: tuple[int, ...] = ()
        self._task, self._turn, self._reward = "", 0, 0.0
        self._at = self._last = 0
        """Indices of the task in play, and of that of the last action."""

    @property
    def tasks(self) -> Tasks:
        """Names from which the combinations and their tasks are sampled."""
        return Tasks.generated()

    @property
    def instructions(self) -> str:
        """The rules of all ids, and those of a combination."""
        texts = [str(each.get_wrapper_attr("instructions")) for each in self._kinds]
        order = "in their order" if self.ordered else "in any order"
        lines = [f"An episode has {self.n} tasks, which you solve {order}."] * (self.n > 1)
        if not self.ordered and self.n > 1:
            lines.append(
                "Begin an action with the number of its task and a colon, such as `2: ...`. "
                "Without a number it is played in the task that is marked."
            )
        return "\n\n".join([*texts, *lines])

    @cached_property
    def combinations(self) -> dict[str, list[tuple[int, ...]]]:
        """The combinations of ids by split, as indices, 0 for that of the environment."""
        every = list(itertools.product(range(len(self._kinds)), repeat=self.n))
        if self.n == 1 or len(every) == 1 or not self.held_out:
            return {"train": every, "test": every}
        held = min(len(every) - 1, max(1, round(self.held_out * len(every))))
        mixed = sorted(every, key=lambda each: (zlib.crc32(repr(each).encode()), each))
        return {"train": sorted(mixed[held:]), "test": sorted(mixed[:held])}

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Starts an episode. Without a seed, one is sampled from `self.np_random`."""
        check_reset_options(options, None)
        options = dict(options or {})
        given = options.pop("task", None)
        given = None if given is None else self.tasks.check(given)
        seed = self._given_or_sampled(seed)
        self.env.reset(seed=seed)
        rng = np.random.default_rng(seed)
        names = self.tasks.split(self.env.get_wrapper_attr("split"))
        drawn = names[int(rng.integers(len(names)))]
        self._task = drawn if given is None else given
        split = self._task.partition("/")[0]
        chance = task_rng(self._task, "compose")
        found = self.combinations[split]
        self._chosen = found[int(chance.integers(len(found)))]
        self._parts = [
            _Part(place[kind]) for place, kind in zip(self._places, self._chosen, strict=True)
        ]
        for part in self._parts:
            tasks = _tasks(part.env).split(split)
            name = tasks[int(chance.integers(len(tasks)))]
            start = {**options, "task": name}
            part.observation, part.info = part.env.reset(
                seed=int(rng.integers(2**31)), options=start
            )
            part.goal = _goal(part.observation)
        self._at = self._last = self._turn = 0
        self._reward, self._summary = 0.0, ""
        if self.goal != LISTED:
            goals = "\n".join(f"{i}. {part.goal}" for i, part in enumerate(self._parts, 1))
            order = "in this order" if self.ordered else "in any order"
            [self._summary] = text_model(self.goal, PROMPT)([f"Tasks, {order}:\n{goals}"])
        return self._shown()

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Plays one turn of a task: see `TextEnv.step`."""
        if all(part.over for part in self._parts):
            raise ResetNeeded("Call reset() before step(): there is no episode in progress.")
        check_text(action)
        text = self._addressed(action)
        part = self._parts[self._at]
        self._last, self._turn = self._at, self._turn + 1
        part.observation, reward, terminated, truncated, part.info = part.env.step(text)
        part.over = terminated or truncated
        self._reward = float(reward) / self.n
        ended = all(each.over for each in self._parts)
        if part.over and not ended:
            self._at = next(i for i, each in enumerate(self._parts) if not each.over)
        observation, info = self._shown()
        return observation, self._reward, ended and terminated, ended and truncated, info

    def expert(self) -> str | None:
        """Returns the action of the expert of the task in play."""
        if not self._parts:
            raise ResetNeeded("Call reset() before expert(): there is no task in play.")
        part = self._parts[self._at]
        action = part.env.get_wrapper_attr("expert")()
        return action if self.ordered or action is None else f"{self._at + 1}: {action}"

    def privileged_text(self) -> str | None:
        """Returns the facts about the hidden states of all tasks: see `TextEnv`."""
        texts = [part.env.get_wrapper_attr("privileged_text")() for part in self._parts]
        known = [f"{i}: {text}" for i, text in enumerate(texts, 1) if text]
        return "\n".join(known) or None

    def close(self) -> None:
        """Closes the environments of all tasks."""
        for env in itertools.chain(*self._places):
            env.close()

    def _addressed(self, action: str) -> str:
        """Chooses the task that an action is for. Returns the action without its number."""
        if self.ordered or isinstance(action, UnreadableAction):
            return action
        found = _ADDRESS.fullmatch(command(without_thoughts(action)))
        if found is None:
            return action
        number = int(found[1])
        if number > self.n or self._parts[number - 1].over:
            left = [i for i, part in enumerate(self._parts, 1) if not part.over]
            return UnreadableAction(action, f"There is no task {number} to solve. Left: {left}.")
        self._at = number - 1
        return found[2]

    def _shown(self) -> tuple[str, dict[str, Any]]:
        """Returns the joint observation and info."""
        parts, now = self._parts, self._parts[self._at]
        infos = [part.info for part in parts]
        terms = {f"task {i}": 0.0 for i in range(1, self.n + 1)}
        terms[f"task {self._last + 1}"] = self._reward
        keys = [[part.info["state_key"], part.over] for part in parts]
        info = {
            "task": self._task,
            "turn": self._turn,
            "valid": bool(infos[self._last]["valid"]) if self._turn else True,
            "success": all(bool(each["success"]) for each in infos),
            "progress": float(np.mean([each["progress"] for each in infos])),
            "admissible": self._admissible(),
            "state_key": state_digest(repr((self._task, keys, self._at, now.observation))),
            "reward_terms": terms,
            "part": self._at,
        }
        return f"{self._goals()}\n\n{now.observation}", info

    def _goals(self) -> str:
        """Returns the goals of all tasks, with their outcomes, or the one that a model wrote."""
        if self._summary:
            over = sum(part.over for part in self._parts)
            return f"Goal: {self._summary}\nTasks that are over: {over} of {self.n}."
        order = ", in this order" * self.ordered
        lines = [
            f"{i}. {part.goal}{part.status or (' (now)' if i == self._at + 1 else '')}"
            for i, part in enumerate(self._parts, 1)
        ]
        return "\n".join([f"Solve {'this task' if self.n == 1 else f'all tasks{order}'}:", *lines])

    def _admissible(self) -> tuple[str, ...]:
        """Returns the admissible actions, none if those of a task in play are not listed."""
        if self.ordered:
            return tuple(self._parts[self._at].info["admissible"])
        left = [(i, part) for i, part in enumerate(self._parts, 1) if not part.over]
        listed = [tuple(part.info["admissible"]) for _, part in left]
        if not all(listed):
            return ()
        pairs = zip(left, listed, strict=True)
        return tuple(f"{i}: {action}" for (i, _), actions in pairs for action in actions)

    def _view(self, observation: str, info: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """Returns the joint observation after `restore`, which passes those of the inner one."""
        for part in self._parts:
            if part.env is self.env:
                part.observation, part.info = observation, info
        return self._shown()

    def _memory(self) -> dict[str, Any]:
        inner = [None if p.env is self.env else snapshot_of(p.env) for p in self._parts]
        return {
            "task": self._task,
            "chosen": list(self._chosen),
            "places": [self._at, self._last],
            "turn": self._turn,
            "reward": self._reward,
            "summary": self._summary,
            "goals": [part.goal for part in self._parts],
            "over": [part.over for part in self._parts],
            "parts": inner,
        }

    def _remember(self, memory: dict[str, Any]) -> None:
        chosen = tuple(memory["chosen"])
        if chosen and chosen not in itertools.chain(*self.combinations.values()):
            raise ValueError(f"expected a combination of ids, got {chosen!r:.80}")
        self._task, self._turn = str(memory["task"]), int(memory["turn"])
        self._chosen, self._reward = chosen, float(memory["reward"])
        self._summary = str(memory["summary"])
        self._at, self._last = (int(place) for place in memory["places"])
        self._parts = []
        lists = (memory[name] for name in ("goals", "over", "parts"))
        rows = zip(chosen, self._places[: len(chosen)], *lists, strict=True)
        for kind, place, goal, over, snapshot in rows:
            part = _Part(place[kind], str(goal), over=bool(over))
            if part.env is not self.env:
                part.env.reset(seed=0)  # an environment of `gymnasium.make` must be reset before
                part.observation, part.info = restore_snapshot(part.env, snapshot)
            self._parts.append(part)


def _made(id: str) -> Env:
    """Makes the environment of an id, with or without its namespace."""
    known = id in gymnasium.registry or ":" in id
    try:
        return gymnasium.make(id if known else f"AgentGym/{id}", disable_env_checker=True)
    except gymnasium.error.Error as error:
        raise ConfigError(f"Compose: there is no environment {id!r}: {error}") from error


def _tasks(env: Env) -> Tasks:
    """Returns the tasks of an environment. Raises ConfigError without any."""
    try:
        return env.get_wrapper_attr("tasks")
    except AttributeError as error:
        raise ConfigError(
            f"Compose needs environments with `tasks`, and {env.unwrapped} has none."
        ) from error


def _goal(observation: str) -> str:
    """Returns the goal in the first observation of a task."""
    lines = _GOAL.findall(observation)
    return " ".join(lines) if lines else observation.replace("\n", "\n   ")
