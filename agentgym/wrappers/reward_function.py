"""`RewardFunction`: a user-defined reward function."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium

from agentgym.errors import ConfigError
from agentgym.wrappers.base import TextWrapper


@dataclass(frozen=True)
class Transition:
    """One step of an environment.

    Attributes:
        observation: the observation that the action responds to.
        action: the action.
        next_observation: the observation after the action.
        reward: the reward of the environment.
        terminated: whether the episode terminated.
        truncated: whether the episode was truncated.
        info: the info after the action, with `reward_terms`, `valid`, `success` and `progress`.
    """

    observation: Any
    action: Any
    next_observation: Any
    reward: float
    terminated: bool
    truncated: bool
    info: Mapping[str, Any]


RewardFn = Callable[[Transition], "float | Mapping[str, float]"]


class RewardFunction(TextWrapper):
    """Replaces the reward of each step by the result of a function.

    **Actions**, **observations**: unchanged.

    **Rewards**: the returned number, or the sum of the returned terms.

    **Info**: `reward_terms` holds the returned terms, or `{"custom": reward}`.

    Args:
        env: a text environment.
        function: maps a `Transition` to a number, or to a mapping from names to numbers. It should
            depend only on the transition, so that episodes are reproducible.

    Raises:
        ConfigError: if `function` is not callable. From `step`: if it returns anything other than
            finite numbers.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], function: RewardFn):
        if not callable(function):
            raise ConfigError(f"The reward function must be callable, got {function!r:.80}.")
        super().__init__(env, function=function)
        self.function = function
        self._seen: Any = None

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Plays one turn: see `TextEnv.step`."""
        before = self._seen
        observation, reward, terminated, truncated, info = super().step(action)
        result = self.function(
            Transition(before, action, observation, reward, terminated, truncated, info)
        )
        terms = result if isinstance(result, Mapping) else {"custom": result}
        checked = {name: _number(name, term) for name, term in terms.items()}
        info["reward_terms"] = checked
        return observation, float(sum(checked.values())), terminated, truncated, info

    def _view(self, observation: Any, info: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        self._seen = observation
        return observation, info

    def _memory(self) -> dict[str, Any]:
        return {"seen": self._seen}

    def _remember(self, memory: dict[str, Any]) -> None:
        self._seen = memory["seen"]


def _number(name: str, term: Any) -> float:
    try:
        value = float(term)
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value):
        raise ConfigError(
            f"The reward function must return finite numbers, got {term!r:.80} for {name!r}."
        )
    return value
