"""`WeightedReward`: a weighted sum of the reward terms."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import gymnasium

from agentgym.errors import ConfigError, did_you_mean
from agentgym.wrappers.base import TextWrapper


class WeightedReward(TextWrapper):
    """Replaces the reward by a weighted sum of the environment's reward terms.

    **Actions**, **observations**: unchanged.

    **Rewards**: the sum of weight times term. Terms without a weight are dropped.

    **Info**: `reward_terms` holds the weighted terms, so that they still sum to the reward.

    Args:
        env: an environment that reports `info["reward_terms"]`.
        terms: weight of each reward term by name. "invalid" is the penalty of invalid actions.

    Raises:
        ConfigError: if a weight is not finite. From `reset`: if the environment has no such term.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], terms: Mapping[str, float]):
        super().__init__(env, terms=terms)
        self.terms = {name: float(weight) for name, weight in terms.items()}
        for name, weight in self.terms.items():
            if not math.isfinite(weight):
                raise ConfigError(f"The weight of {name!r} must be finite, got {weight}.")

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Plays one turn: see `TextEnv.step`."""
        observation, _, terminated, truncated, info = super().step(action)
        reward = float(sum(info["reward_terms"].values()))
        return observation, reward, terminated, truncated, info

    def _view(self, observation: Any, info: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        given = info.get("reward_terms", {})
        for name in self.terms:
            if name not in given:
                raise ConfigError(
                    f"Unknown reward term {name!r}. This environment has {sorted(given)}."
                    f"{did_you_mean(name, given)}"
                )
        weighted = {name: self.terms.get(name, 0.0) * term for name, term in given.items()}
        # + 0.0: a penalty with weight 0 must be 0.0, not -0.0.
        return observation, {**info, "reward_terms": {n: t + 0.0 for n, t in weighted.items()}}
