"""NTPO: token-level GAE with a discount at every token, the baseline of POAD.

`poad` with these defaults: lambda_token 0.95, and a discount of gamma at every token.

"Reinforcing LLM Agents via Policy Optimization with Action Decomposition" (Wen et al., arXiv
2405.15821) argues against it. Every token is a step of the Markov decision process:

    V(o, w_<j) <- gamma V(o, w_<=j)

Discount and GAE lambda apply at every token, also inside an action, so the value of a reward
depends on the number of tokens of the actions before it. This is the GAE that results from masking
the observations of a chat. Everything but the discounts equals `poad`, also `lr_by_reliability`,
which compares with returns that are discounted per turn: a batch of equal returns takes no step,
although actions differ in length.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from agentgym.trainers.algorithm import Algorithm, PolicyGradient, value_head
from agentgym.trainers.credit import two_clock
from agentgym.trainers.settings import Fraction, When
from agentgym.trainers.settings.kinds import ActorCriticConfig


@dataclass
class Config(ActorCriticConfig):
    """Settings of NTPO."""

    conditions: ClassVar[Mapping[str, When]] = {"shape_progress": When("gamma", (1.0,))}

    gamma: Fraction = 0.99
    """Discount between tokens."""
    lambda_token: Fraction = 0.95
    """GAE lambda between tokens."""


def build(config: Config) -> Algorithm:
    """Returns the parts of NTPO."""
    return Algorithm(
        PolicyGradient(
            two_clock.ntpo(config.gamma, config.lambda_token), critic=value_head("tokens", config)
        )
    )
