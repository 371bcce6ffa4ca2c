"""StepPO: GAE over turns, advantages standardised over turns, and a ratio per turn.

`turn` with these defaults: aggregation turn, kl_coef 0.001, normalize_advantages none, and a mean
and standard deviation over turns.

"StepPO: Step-Aligned Policy Optimization for Agentic Reinforcement Learning" (Wang et al., arXiv
2604.18401). A turn is the unit of everything: of the state value, read at the last token of the
prompt, of the advantage (see `turn`), of its mean and standard deviation over the batch, of the
clipped ratio, which is the geometric mean over the turn's tokens, and of the loss, a mean over
turns of the mean over their tokens. Long actions therefore count no more than short ones.

Kept: all of these, the KL coefficient of 0.001, no dual clip (`dual_clip`: the authors' scripts set
one, which their loss does not read). Changed: a truncated episode bootstraps. lambda is 0.95, as in
`turn` (their code takes any). The ratio is clipped at 0.2 (their scripts: 3e-4 below and 4e-4
above, with one step per batch). Advantages that vary more than returns lower the learning rate
(`lr_by_reliability`).
"""

from __future__ import annotations

from dataclasses import dataclass

from agentgym.trainers.algorithm import Algorithm, PolicyGradient, value_head
from agentgym.trainers.credit import two_clock
from agentgym.trainers.credit.normalize import normalize_advantages
from agentgym.trainers.data.batch import Batch, Credit
from agentgym.trainers.hooks.base import RecipeHooks
from agentgym.trainers.settings import Fraction, LossConfig, defaults
from agentgym.trainers.settings.kinds import ActorCriticConfig


@dataclass
class Config(ActorCriticConfig):
    """Settings of StepPO."""

    loss: LossConfig = defaults(
        LossConfig,
        ratio="turn",
        aggregation="turn",
        normalize_advantages="none",
        kl_coef=1e-3,
    )
    gamma: Fraction = 0.99
    """Discount between turns."""
    lambda_turn: Fraction = 0.95
    """GAE lambda between turns."""


class PerTurn(RecipeHooks):
    """Standardises advantages over the turns of the batch.

    Args:
        thought_coef: weight of thought tokens in the loss.
    """

    def __init__(self, thought_coef: float = 1.0):
        super().__init__()
        self.thought_coef = thought_coef

    def on_advantages(self, batch: Batch, credit: Credit, iteration: int) -> Credit:
        """Returns the credit with the standardised advantages."""
        return normalize_advantages(credit, batch, over="turns", thought_coef=self.thought_coef)


def build(config: Config) -> Algorithm:
    """Returns the parts of StepPO."""
    return Algorithm(
        PolicyGradient(
            two_clock.turn(config.gamma, config.lambda_turn), critic=value_head("turns", config)
        ),
        hooks=lambda _: PerTurn(config.loss.thought_coef),
    )
