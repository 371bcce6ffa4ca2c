"""`RewardFunction`: a user-defined reward function."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium

from agentgym.errors import ConfigError
from agentgym.reading.typography import without_thoughts
from agentgym.utils.action_parsing import plain
from agentgym.utils.importing import imported
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
        gain: the rise of `progress` by the action.
        expert: the action of the environment's expert, for the function "expert" alone.
    """

    observation: Any
    action: Any
    next_observation: Any
    reward: float
    terminated: bool
    truncated: bool
    info: Mapping[str, Any]
    gain: float = 0.0
    expert: str | None = None


RewardFn = Callable[[Transition], "float | Mapping[str, float]"]


def _success(step: Transition) -> float:
    return float((step.terminated or step.truncated) and bool(step.info["success"]))


def _progress(step: Transition) -> float:
    return step.gain


def _expert(step: Transition) -> float:
    """Returns 1 for the expert's action, 1/2 for another one with the same first word, else 0."""
    if step.expert is None:
        return 0.0
    own, right = plain(without_thoughts(str(step.action))), plain(step.expert)
    return float(own == right) or 0.5 * (own.split()[:1] == right.split()[:1])


REWARDS: dict[str, RewardFn] = {"success": _success, "progress": _progress, "expert": _expert}
"""Reward functions by name."""


class RewardFunction(TextWrapper):
    """Replaces the reward of each step by the result of a function.

    With a name in place of a function, it is a reward layer for any environment, as in AutoEnv
    (arXiv 2511.19304): `success` is sparse, `progress` dense.

    **Actions**, **observations**: unchanged.

    **Rewards**: the returned number, or the sum of the returned terms.

    **Info**: `reward_terms` holds the returned terms, or `{"custom": reward}`. After `reset`, it
    holds 0 for each of `terms`.

    Args:
        env: a text environment.
        function: maps a `Transition` to a number, or to a mapping from names to numbers. It should
            depend only on the transition, so that episodes are reproducible. Or "success" (1 at the
            end of an episode that solved its task, else 0), "progress" (the rise of
            `info["progress"]`), "expert" (1 for the action of the environment's expert, 1/2 for
            another one with the same first word, else 0), or "module:function".
        terms: the names in the mapping, so that they are known from `reset` on, as `WeightedReward`
            needs it. Names that are missing in a step have the term 0. Empty: any names, or a
            number, whose name is `custom`.

    Raises:
        ConfigError: if `function` is neither callable nor the name of a function. From `step`: if
            it returns anything other than finite numbers, or other terms than `terms`.
    """

    def __init__(
        self, env: gymnasium.Env[Any, Any], function: RewardFn | str, *, terms: Sequence[str] = ()
    ):
        super().__init__(env, function=function, terms=terms)
        self.function, self.terms = _function(function), tuple(terms)
        self._seen: Any = None
        self._progress = 0.0

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Plays one turn: see `TextEnv.step`."""
        known = self.function is _expert
        expert = self.env.get_wrapper_attr("expert")() if known else None
        observation, reward, terminated, truncated, info = self.env.step(action)
        gain = float(info.get("progress", 0.0)) - self._progress
        ends = terminated, truncated
        result = self.function(
            Transition(self._seen, action, observation, float(reward), *ends, info, gain, expert)
        )
        given = result if isinstance(result, Mapping) else {"custom": result}
        if self.terms and not {*given} <= {*self.terms}:
            raise ConfigError(
                f"The reward function must return the terms {self.terms}, got {[*given]}."
            )
        terms = dict.fromkeys(self.terms, 0.0)
        terms |= {name: _number(name, term) for name, term in given.items()}
        observation, info = self._view(observation, info)
        info["reward_terms"] = terms
        return observation, float(sum(terms.values())), terminated, truncated, info

    def _view(self, observation: Any, info: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        self._seen = observation
        self._progress = float(info.get("progress", 0.0))
        return observation, {**info, "reward_terms": dict.fromkeys(self.terms or ("custom",), 0.0)}

    def _memory(self) -> dict[str, Any]:
        return {"seen": self._seen}

    def _remember(self, memory: dict[str, Any]) -> None:
        self._seen = memory["seen"]


def _function(given: RewardFn | str) -> RewardFn:
    """Returns the reward function that is given itself or by its name."""
    if callable(given):
        return given
    if isinstance(given, str) and given in REWARDS:
        return REWARDS[given]
    if isinstance(given, str) and ":" in given:
        return imported(given, "function")
    raise ConfigError(
        f"The reward function must be callable, {', '.join(REWARDS)} or module:function, got "
        f"{given!r:.80}."
    )


def _number(name: str, term: Any) -> float:
    try:
        value = math.nan if isinstance(term, (str, bytes)) else float(term)
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value):
        raise ConfigError(
            f"The reward function must return finite numbers, got {term!r:.80} for {name!r}."
        )
    return value
