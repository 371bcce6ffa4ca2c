"""Turn-level PPO: GAE over turns with a state-value critic.

"Turn-PPO: Turn-Level Advantage Estimation with PPO for Improved Multi-Turn RL in Agentic LLMs"
(arXiv 2512.17008) and, before it, TWOSOME (`twosome`, arXiv 2401.14151). The critic values
observations at the last token of the prompt. All tokens of an action share the advantage

    A_t = r_t + gamma V(o_{t+1}) - V(o_t) + gamma lambda A_{t+1}

`ratio` selects the clipped quantity: the ratio of the whole turn (the geometric mean of its
tokens'), or of each token.

Kept: gamma 0.99, clipping per turn. Changed: lambda is TWOSOME's 0.95 (Turn-PPO: 0.9). Actions are
sampled token by token from the constrained distribution, whose probabilities enter the ratio,
instead of from a softmax over whole candidates. Advantages that vary more than returns lower the
learning rate (`lr_by_reliability`).
"""

from __future__ import annotations

from dataclasses import dataclass

from agentgym.trainers.algorithm import Algorithm, PolicyGradient, value_head
from agentgym.trainers.credit import two_clock
from agentgym.trainers.settings import Fraction, LossConfig, defaults
from agentgym.trainers.settings.kinds import ActorCriticConfig


@dataclass
class Config(ActorCriticConfig):
    """Settings of turn-level PPO."""

    loss: LossConfig = defaults(LossConfig, ratio="turn")
    gamma: Fraction = 0.99
    """Discount between turns."""
    lambda_turn: Fraction = 0.95
    """GAE lambda between turns."""


def build(config: Config) -> Algorithm:
    """Returns the parts of turn-level PPO."""
    return Algorithm(
        PolicyGradient(
            two_clock.turn(config.gamma, config.lambda_turn), critic=value_head("turns", config)
        )
    )
