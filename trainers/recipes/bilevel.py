"""Bi-level GAE: GAE over turns, then over the tokens of each turn.

"VAGEN: Reinforcing World Model Reasoning for Multi-Turn VLM Agents" (arXiv 2510.16907). A critic
values the state before every token, as in POAD. Credit is assigned at two levels: over turns, at
their last tokens,

    A_t = r_t + gamma V_{t+1} - V_t + gamma lambda A_{t+1}

and then inside each turn, towards its A_t.

Kept: the two levels and their two discounts. Changed: the rollout records the ends of turns. The
authors' code infers them from non-zero rewards, which loses turns without a reward. A truncated
episode bootstraps from the value of its last observation (theirs: from 0). Advantages that vary
more than returns lower the learning rate (`lr_by_reliability`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from agentgym.trainers.algorithm import Algorithm, PolicyGradient, value_head
from agentgym.trainers.credit.bilevel import BilevelGAE
from agentgym.trainers.settings import Fraction, When
from agentgym.trainers.settings.kinds import ActorCriticConfig


@dataclass
class Config(ActorCriticConfig):
    """Settings of bi-level GAE."""

    conditions: ClassVar[Mapping[str, When]] = {"shape_progress": When("gamma_token", (1.0,))}

    gamma: Fraction = 0.95
    """Discount between turns."""
    lambda_turn: Fraction = 1.0
    """GAE lambda between turns."""
    gamma_token: Fraction = 1.0
    """Discount inside a turn."""
    lambda_token: Fraction = 1.0
    """GAE lambda inside a turn."""


def build(config: Config) -> Algorithm:
    """Returns the parts of bi-level GAE."""
    return Algorithm(
        PolicyGradient(
            BilevelGAE(config.gamma_token, config.lambda_token, config.gamma, config.lambda_turn),
            critic=value_head("tokens", config),
        )
    )
