"""StepPO: GAE over turns, advantages standardised over turns, and a ratio per turn.

"StepPO: Step-Aligned Policy Optimization for Agentic Reinforcement Learning" (Wang et al., arXiv
2604.18401). A turn is the unit of everything: of the state value, read at the last token of the
prompt, of the advantage (see `turn`), of its mean and standard deviation over the batch, of the
clipped ratio, which is the geometric mean over the turn's tokens, and of the loss, a mean over
turns of the mean over their tokens. Long actions therefore count no more than short ones.

Kept: all of these, the clip of the loss of negative advantages at 10, the KL coefficient of 0.001.
Changed: a truncated episode bootstraps. lambda is 0.95, as in `turn` (the authors' code takes any).
The ratio is clipped at 0.2 (their scripts: 3e-4 below and 4e-4 above, with one step per batch).
"""

from __future__ import annotations

from dataclasses import dataclass

from agentgym.trainers.config import TrainConfig
from agentgym.trainers.credit import two_clock
from agentgym.trainers.credit.normalize import normalize_advantages
from agentgym.trainers.critics.heads import TurnValueHead, value_head
from agentgym.trainers.settings import Fraction, LossConfig, defaults
from agentgym.trainers.trainer import Algorithm
from agentgym.trainers.trajectory import Batch, Credit, Values


@dataclass
class Config(TrainConfig):
    """Settings of StepPO."""

    loss: LossConfig = defaults(
        LossConfig,
        ratio="turn",
        aggregation="turn",
        normalize_advantages="none",
        dual_clip=10.0,
        kl_coef=1e-3,
    )
    gamma: Fraction = 0.99
    """Discount between turns."""
    lambda_turn: Fraction = 0.95
    """GAE lambda between turns."""


@dataclass(frozen=True)
class StepAdvantages:
    """Turn-level GAE, standardised over the turns of the batch.

    Attributes:
        gamma: discount per turn.
        lambda_: GAE lambda per turn.
    """

    gamma: float = 0.99
    lambda_: float = 0.95

    def __call__(self, batch: Batch, values: Values | None) -> Credit:
        """Returns advantages and targets of a turn-level critic.

        Raises:
            ValueError: if values are missing or have the wrong shape.
        """
        credit = two_clock.turn(self.gamma, self.lambda_)(batch, values)
        return normalize_advantages(credit, batch, over="turns")


def build(config: Config) -> Algorithm:
    """Returns the parts of StepPO."""
    return Algorithm(
        credit=StepAdvantages(config.gamma, config.lambda_turn),
        critic=value_head(TurnValueHead, config),
    )
