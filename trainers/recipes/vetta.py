"""VETTA: turn-level advantages, and token-level ones as residuals inside each turn.

The residual two-level critic of VETTA (arXiv 2610.08402), on the estimator of "High-Dimensional
Continuous Control Using Generalized Advantage Estimation" (arXiv 1506.02438). Token-level credit
over long episodes is noisy, and turn-level credit gives all tokens of an action the same. Here, the
mean over a turn is its turn-level advantage, which the tokens divide:

    A[t,j] = A_turn[t] + alpha (A_token[t,j] - mean_j A_token[t,j])

Kept: GAE with gamma and lambda 0.95 between turns, token-level GAE with lambda 1, a clipped ratio
per token, a dual clip of 3, the KL penalty to the policy before RL. The authors tune `alpha`: 1 in
ALFWorld, 3 in WebShop. Changed: one value head in place of two, because the value before the first
token of an action is that of the turn. Turns have the same discount in both parts, which changes no
residual. The critic shares the policy's backbone by default: theirs is a copy of its first layers.
"""

from __future__ import annotations

from dataclasses import dataclass

from agentgym.trainers.algorithm import Algorithm, PolicyGradient, value_head
from agentgym.trainers.credit.residual import ResidualGAE
from agentgym.trainers.settings import Fraction, LossConfig, NonNegative, defaults
from agentgym.trainers.settings.kinds import ActorCriticConfig


@dataclass
class Config(ActorCriticConfig):
    """Settings of VETTA."""

    loss: LossConfig = defaults(LossConfig, dual_clip=3.0, kl_coef=0.01)
    gamma: Fraction = 0.95
    """Discount between turns (none inside an action)."""
    lambda_turn: Fraction = 0.95
    """GAE lambda between turns."""
    alpha: NonNegative = 1.0
    """Weight of the deviation of a token's advantage from the mean of its turn (0: the credit of
    `turn`)."""


def build(config: Config) -> Algorithm:
    """Returns the parts of VETTA."""
    return Algorithm(
        PolicyGradient(
            ResidualGAE(config.alpha, config.gamma, config.lambda_turn),
            critic=value_head("tokens", config),
        )
    )
