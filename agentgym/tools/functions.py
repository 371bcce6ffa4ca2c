"""`FunctionToolEnv`: an environment made of functions."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentgym.errors import ConfigError
from agentgym.tasks import Tasks
from agentgym.tools.calls import Call
from agentgym.tools.decorator import Tool, tool
from agentgym.tools.env import ToolEnv, ToolState
from agentgym.tools.rewards import Reward


@tool(final=True)
def submit(state: dict[str, Any], answer: str) -> str:
    """Submits the answer and ends the episode.

    Args:
        state: the state of the episode.
        answer: the answer.
    """
    state["answer"] = answer
    return "Submitted."


@dataclass
class FunctionState(ToolState):
    """State of a `FunctionToolEnv`: a dictionary of JSON values."""

    values: dict[str, Any] = field(default_factory=dict)


class FunctionToolEnv(ToolEnv):
    """An environment made of functions.

    Without a final tool, `submit(answer)` is added, which stores the answer in `state["answer"]`.

    Args:
        tools: functions decorated with `agentgym.tool`. A first parameter named `state` receives
            the state of the episode, a dictionary of JSON values.
        start: task -> (request, state): the first observation and the initial state, which is
            copied.
        reward: state -> reward at the end of the episode, or functions decorated with
            `agentgym.reward`, whose weighted values are its terms. A sum of 1 or more is a success.
        tasks: the training and test tasks. Default: "train/0", ... and "test/0", ..., for levels
            that `start` generates with `agentgym.tasks.task_rng`.
        expert: state -> the next `Call` of a scripted expert, or None if it has none. Training
            can start from its demonstrations. It gets a copy of the state.
        rules: goal and rules for the agent.
        **kwargs: arguments of `ToolEnv`.

    Raises:
        ConfigError: for an entry of `tools` that is not a tool, or an invalid list of rewards.
        TypeError: at `reset`, if `start` returns a state that JSON cannot hold.
    """

    State = FunctionState
    state: FunctionState

    def __init__(
        self,
        tools: Sequence[Tool],
        *,
        start: Callable[[str], tuple[str, dict[str, Any]]],
        reward: Callable[[dict[str, Any]], float] | Sequence[Reward],
        tasks: Tasks | None = None,
        expert: Callable[[dict[str, Any]], Call | None] | None = None,
        rules: str = "Use the tools to do the task.",
        **kwargs,
    ):
        for offered in tools:
            if not isinstance(offered, Tool):
                raise ConfigError(f"Decorate {offered!r:.80} with @agentgym.tool.")
        self._text = rules
        single = callable(reward) and not isinstance(reward, Reward)
        self._terms = _terms({"task": reward} if single else reward)
        self.reward_names = (*self._terms, "cost")  # type: ignore[misc]  # fixed by the functions
        super().__init__(**kwargs)
        self._start_function, self._expert_function = start, expert
        self.tasks = Tasks.generated() if tasks is None else tasks
        final = any(offered.final for offered in tools)
        self._add_tools([*tools] if final else [*tools, submit])

    def _rules(self) -> str:
        return self._text

    def _begin(self, task: str) -> str:
        request, values = self._start_function(task)
        if not isinstance(values, Mapping):
            raise TypeError(f"start must return (request, state), got the state {values!r:.80}.")
        check_json(values)
        self.state = FunctionState(copy.deepcopy(dict(values)))
        return request

    def _run(self, offered: Tool, arguments: dict[str, Any]) -> Any:
        if offered.context:
            return offered.function(self.state.values, **arguments)
        return offered.function(**arguments)

    def _changed(self) -> Any:
        return self.state.values

    def _solve(self) -> Call | None:
        if self._expert_function is None:
            return None
        call = self._expert_function(copy.deepcopy(self.state.values))
        if call is not None and not isinstance(call, Call):
            raise TypeError(f"expert must return a Call or None, got {call!r:.80}.")
        return call

    def _rewards(self) -> dict[str, float]:
        return {name: float(term(self.state.values)) for name, term in self._terms.items()}


def check_json(value: Any, where: str = "state") -> None:
    """Checks that JSON can hold a value, as snapshots need it.

    Args:
        value: the value.
        where: the expression of the value, for the message.

    Raises:
        TypeError: with the place of the first part that JSON cannot hold.
    """
    if isinstance(value, Mapping):
        for key, item in value.items():
            if type(key) is not str:
                raise TypeError(f"{where} has the key {key!r:.80}: write it as a str.")
            check_json(item, f"{where}[{key!r:.80}]")
    elif isinstance(value, list):
        for i, item in enumerate(value):
            check_json(item, f"{where}[{i}]")
    elif value is not None and type(value) not in (str, bool, int, float):
        raise TypeError(
            f"{where} is a {type(value).__name__}, which JSON cannot hold: {value!r:.80}. Keep "
            "str, bool, int, float, None, lists and dictionaries: int(x) for a number of NumPy, "
            "list(x) for a tuple or a set, vars(x) for an object that tools build in each call."
        )


def _terms(reward: Any) -> dict[str, Callable[[dict[str, Any]], float]]:
    """Returns the terms of a reward by name."""
    if isinstance(reward, Mapping):
        return dict(reward)
    terms = [reward] if not isinstance(reward, Iterable) else list(reward)
    names = [getattr(term, "name", "") for term in terms]
    if not terms or not all(isinstance(term, Reward) for term in terms):
        raise ConfigError("reward needs a function or functions decorated with @agentgym.reward.")
    if len({*names, "cost", "invalid"}) < len(names) + 2:
        raise ConfigError(f"Rewards need different names, other than cost and invalid: {names}.")
    return dict(zip(names, terms, strict=True))
