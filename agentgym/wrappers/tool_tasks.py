"""`ToolTasks`: written tasks of an environment of tools, verified by the state that they reach."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium

from agentgym.errors import ConfigError, DataError
from agentgym.snapshots import restore_snapshot, snapshot_of
from agentgym.tasks import Tasks
from agentgym.tools import Call, ToolEnv, write_call
from agentgym.utils.arguments import check_reset_options
from agentgym.utils.file_cache import cached_by_files
from agentgym.utils.serialization import from_json, to_json
from agentgym.wrappers.base import TextWrapper

TERM = "written"
"""Reward term of written tasks."""
TEST = 5
"""Every so many tasks, one is a test task."""
Calls = list[dict[str, Any]]
"""Calls, each with `name` and `arguments`."""


@dataclass
class ToolTask:
    """A written task.

    Attributes:
        start: the task of the environment whose start it has.
        goal: what the agent is asked for.
        calls: the calls of a solution. The last one ends the episode.
        wrong: sequences of calls that are no solution.
    """

    start: str
    goal: str
    calls: Calls
    wrong: list[Calls] = field(default_factory=list)


class ToolTasks(TextWrapper):
    """Plays written tasks, whose verifier is the state that their solution reaches.

    `agentgym.evaluation.tool_tasks.write_tool_tasks` lets a language model write them from the
    documentation of the tools, with a solution and failure cases, as in "Self-Challenging Language
    Model Agents" (arXiv 2506.01716). An episode is solved if it ends in the state in which the
    solution ends, whatever the calls before.

    **Actions**: unchanged.

    **Observations**: text. The first one is the goal.

    **Rewards**: 1 for a solved task at its end, else 0, and the costs of calls and invalid actions.

    **Episode end**: unchanged.

    **Info**: the reward term `written` is added, and those of the environment's own goal are 0.
    `task` is the name of the written task, "written/0", ... `success` and `progress` are 1 for a
    solved task, else 0.

    Args:
        env: a `ToolEnv`.
        file: JSON list of at least two tasks (see `ToolTask`). One in five is a test task, the last
            one of fewer than five.

    Raises:
        ConfigError: if the environment has no tools.
        DataError: if the file holds fewer tasks, or the calls of a task are no solution.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], file: str):
        super().__init__(env, file=file)
        tool_env(env)
        self.file = str(Path(file).absolute())
        self._written = load_tool_tasks(self.file)
        if len(self._written) < 2:
            raise DataError(
                f"{self.file}: expected at least 2 tasks, of which one is held out for tests, got "
                f"1. Add a task."
            )
        self._begin()

    @property
    def tasks(self) -> Tasks:
        """The written tasks."""
        names = [f"written/{i}" for i in range(len(self._written))]
        test = names[TEST - 1 :: TEST] or names[-1:]
        return Tasks([name for name in names if name not in test], test)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Starts an episode: see `TextEnv.reset`."""
        check_reset_options(options, None)
        options = dict(options or {})
        given = options.pop("task", None)
        given = None if given is None else self.tasks.check(given)
        seed = self._given_or_sampled(seed)
        self.env.reset(seed=seed)
        names = self.tasks.split(self.env.get_wrapper_attr("split"))
        drawn = names[int(self.env.unwrapped.np_random.integers(len(names)))]
        self._name = drawn if given is None else given
        written = self._now()
        self.env.reset(seed=seed, options={**options, "task": written.start})
        before = snapshot_of(self.env)
        self._target = played(self.env, written.calls).target
        if not self._target:
            raise DataError(f"{self.file}: the calls of {self._name} do not end the episode.")
        observation, info = restore_snapshot(self.env, before)
        self._played, self._ended, self._fresh = 0, False, True
        return self._view(observation, info)

    def step(self, action: Any) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Plays one turn: see `TextEnv.step`."""
        expected = self.expert()
        observation, _, terminated, truncated, info = self.env.step(action)
        self._fresh = False
        on_the_way = expected is not None and action == expected and info["valid"]
        self._played = self._played + 1 if on_the_way else len(self._now().calls)
        self._ended = terminated and state_of(self.env) == self._target
        observation, info = self._view(observation, info)
        return observation, sum(info["reward_terms"].values()), terminated, truncated, info

    def expert(self) -> str | None:
        """Returns the next call of the solution, None after any other action."""
        calls, env = self._now().calls, tool_env(self.env)
        if self._played >= len(calls):
            return None
        return write_call(Call(**calls[self._played]), env.call_format)

    def _now(self) -> ToolTask:
        return self._written[int(self._name.partition("/")[2])]

    def _view(self, observation: str, info: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        terms = {
            name: term * (name in ("cost", "invalid"))
            for name, term in info["reward_terms"].items()
        }
        added = {
            "task": self._name,
            "success": self._ended,
            "progress": float(self._ended),
            "reward_terms": {**terms, TERM: float(self._ended)},
        }
        shown = self._now().goal if self._fresh else observation
        return shown, self._keyed({**info, **added}, self._name, self._fresh)

    def _begin(self) -> None:
        self._name, self._target, self._played = "written/0", "", 0
        self._ended, self._fresh = False, True

    def _memory(self) -> dict[str, Any]:
        return {
            "name": self._name,
            "target": self._target,
            "played": self._played,
            "flags": [self._ended, self._fresh],
        }

    def _remember(self, memory: dict[str, Any]) -> None:
        self._name = self.tasks.check(memory["name"])
        self._target, self._played = str(memory["target"]), int(memory["played"])
        self._ended, self._fresh = map(bool, memory["flags"])


@dataclass
class Play:
    """What calls have done.

    Attributes:
        observations: the observation after each call that was played.
        valid: whether all calls were valid.
        target: the state at the end of the episode, "" if it has not ended.
    """

    observations: list[str]
    valid: bool = True
    target: str = ""


def played(env: gymnasium.Env[Any, Any], calls: Sequence[Mapping[str, Any]]) -> Play:
    """Plays calls from the current state up to the end of the episode."""
    inner, found = tool_env(env), Play([])
    for call in calls:
        text = write_call(Call(call["name"], dict(call["arguments"])), inner.call_format)
        observation, _, terminated, truncated, info = env.step(text)
        found.observations.append(observation)
        found.valid = found.valid and bool(info["valid"])
        if terminated:
            found.target = state_of(env)
        if terminated or truncated:
            break
    return found


def state_of(env: gymnasium.Env[Any, Any]) -> str:
    """Returns the state of an environment of tools as JSON, without the calls that led to it."""
    state = dict(to_json(tool_env(env).state))
    return json.dumps({name: state[name] for name in sorted(state) if name not in _OF_CALLS})


_OF_CALLS = ("calls", "digest")


def tool_env(env: gymnasium.Env[Any, Any]) -> ToolEnv:
    """Returns the environment of tools in the wrappers. Raises ConfigError if it is another one."""
    found = env.unwrapped
    if not isinstance(found, ToolEnv):
        raise ConfigError(f"Expected an environment of tools (ToolEnv), got {found}.")
    return found


@cached_by_files("file", maxsize=8)
def load_tool_tasks(file: str) -> list[ToolTask]:
    """Returns the tasks of a JSON file, at least one.

    Raises:
        DataError: if it holds anything else.
    """
    try:
        text = Path(file).read_text(encoding="utf-8-sig")
        found = from_json(list[ToolTask], json.loads(text))
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise DataError(f"{file} holds no list of written tasks: {error!s:.300}") from error
    if not found or not all(map(has_calls, found)):
        raise DataError(
            f"{file} must hold tasks whose calls have a name, a text, and arguments, an object."
        )
    return found


def has_calls(task: ToolTask) -> bool:
    """Whether the calls of a task are calls."""
    return all(
        call.keys() == {"name", "arguments"}
        and isinstance(call["name"], str)
        and isinstance(call["arguments"], dict)
        for calls in (task.calls, *task.wrong)
        for call in calls
    )
