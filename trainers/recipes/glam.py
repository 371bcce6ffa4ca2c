"""GLAM: turn-level PPO over admissible actions, scored by summed log-probabilities.

`turn` with these defaults: constrain True, normalization sum, context window, window 2, epochs 4,
entropy_coef 0.01, lambda_turn 0.99.

"Grounding Large Language Models in Interactive Environments with Online Reinforcement Learning"
(Carta et al., ICML 2023, arXiv 2302.02662). The policy is a softmax over the admissible actions,
whose scores are the sums of their tokens' log-probabilities. The prompt holds the current
observation and the two turns before it.

Kept: the scores, gamma = lambda = 0.99, the short window, four epochs, the entropy bonus. Changed:
any causal model takes the place of the authors' encoder-decoder. Scores are sums of
log-probabilities (their code sums logits, padding included). Advantages are standardised over the
batch (theirs are not), there is no value clip (theirs: 0.2), and advantages that vary more than
returns lower the learning rate (`lr_by_reliability`).
"""

from __future__ import annotations

from dataclasses import dataclass

from agentgym.trainers.algorithm import Algorithm, PolicyGradient, value_head
from agentgym.trainers.credit import two_clock
from agentgym.trainers.settings import (
    Fraction,
    LossConfig,
    OptimisationConfig,
    RolloutConfig,
    defaults,
)
from agentgym.trainers.settings.kinds import ActorCriticConfig


@dataclass
class Config(ActorCriticConfig):
    """Settings of GLAM."""

    rollout: RolloutConfig = defaults(
        RolloutConfig, constrain=True, normalization="sum", context="window", window=2
    )
    optimisation: OptimisationConfig = defaults(OptimisationConfig, epochs=4)
    loss: LossConfig = defaults(LossConfig, ratio="turn", entropy_coef=0.01)
    gamma: Fraction = 0.99
    """Discount between turns."""
    lambda_turn: Fraction = 0.99
    """GAE lambda between turns."""


def build(config: Config) -> Algorithm:
    """Returns the parts of GLAM."""
    return Algorithm(
        PolicyGradient(
            two_clock.turn(config.gamma, config.lambda_turn), critic=value_head("turns", config)
        )
    )
