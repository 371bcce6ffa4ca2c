"""TWOSOME: turn-level PPO over admissible actions, scored as whole actions by words.

`turn` with these defaults: constrain True, normalization word, target_kl 0.02.

"True Knowledge Comes from Practice: Aligning LLMs with Embodied Environments via Reinforcement
Learning" (Tan et al., ICLR 2024, arXiv 2401.14151). The policy is a softmax over the admissible
actions. The score of an action is the sum of its tokens' log-probabilities divided by its number
of words: sums favour short actions, and means over tokens favour long words whose later tokens are
nearly certain. An action has one ratio and one advantage, from a state-value critic.

Kept: the word normalisation, the ratio of the whole action, early stopping by KL. Changed: the
optimised distribution is the one that the action was sampled from, end token included. Advantages
are standardised over the batch instead of minibatches of four. The value loss trains the language
model (`critic_detach`). There is no entropy bonus (theirs: 0.01), and turns are discounted
uniformly (theirs by the duration of macro actions). Advantages that vary more than returns lower
the learning rate (`lr_by_reliability`).
"""

from __future__ import annotations

from dataclasses import dataclass

from agentgym.trainers.algorithm import Algorithm, PolicyGradient, value_head
from agentgym.trainers.credit import two_clock
from agentgym.trainers.settings import Fraction, LossConfig, RolloutConfig, defaults
from agentgym.trainers.settings.kinds import ActorCriticConfig


@dataclass
class Config(ActorCriticConfig):
    """Settings of TWOSOME."""

    rollout: RolloutConfig = defaults(RolloutConfig, constrain=True, normalization="word")
    loss: LossConfig = defaults(LossConfig, ratio="turn", target_kl=0.02)
    gamma: Fraction = 0.99
    """Discount between turns."""
    lambda_turn: Fraction = 0.95
    """GAE lambda between turns."""


def build(config: Config) -> Algorithm:
    """Returns the parts of TWOSOME."""
    return Algorithm(
        PolicyGradient(
            two_clock.turn(config.gamma, config.lambda_turn), critic=value_head("turns", config)
        )
    )
