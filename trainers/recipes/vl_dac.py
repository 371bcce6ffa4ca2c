"""VL-DAC: turn-level credit with a clipped ratio per token.

`turn` with these defaults: ratio token, critic_detach True.

"Enhancing Vision-Language Model Training with Reinforcement Learning in Synthetic Worlds for
Real-World Success" (Bredis et al., arXiv 2508.04280). Credit is assigned per turn, by GAE over
turns with a state-value critic. The update works per token: each token's own probability ratio is
clipped. It lies between `turn`, which clips the whole action, and `poad`, which values every token.

Kept: the decoupling of both, and that the value loss does not train the language model. Changed:
advantages are standardised over the tokens of the batch (theirs: over its turns), and the loss is a
mean over tokens (theirs: over turns, `--aggregation turn`). Ratios are clipped at 0.2 (theirs, and
values too: 0.1), and there is no KL penalty (theirs: `--kl-coef 0.04`). Advantages that vary more
than returns lower the learning rate (`lr_by_reliability`).
"""

from __future__ import annotations

from dataclasses import dataclass

from agentgym.trainers.algorithm import Algorithm, PolicyGradient, value_head
from agentgym.trainers.credit import two_clock
from agentgym.trainers.settings import CriticConfig, Fraction, defaults
from agentgym.trainers.settings.kinds import ActorCriticConfig


@dataclass
class Config(ActorCriticConfig):
    """Settings of VL-DAC."""

    critic: CriticConfig = defaults(CriticConfig, critic_detach=True)
    gamma: Fraction = 0.99
    """Discount between turns."""
    lambda_turn: Fraction = 0.95
    """GAE lambda between turns."""


def build(config: Config) -> Algorithm:
    """Returns the parts of VL-DAC."""
    return Algorithm(
        PolicyGradient(
            two_clock.turn(config.gamma, config.lambda_turn), critic=value_head("turns", config)
        )
    )
