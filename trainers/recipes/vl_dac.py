"""VL-DAC: a ratio for each token, a value for each observation only (arXiv 2508.04280).

"Enhancing Vision-Language Model Training with Reinforcement Learning in Synthetic Worlds for
Real-World Success" (Bredis et al.). The turn is the unit of credit - a critic of observations, GAE
over turns - and the token the unit of the update: each token's own probability ratio is clipped.
Between `turn`, which clips the whole action, and `poad`, which values every token.

Kept: the decoupling of both, and the critic's loss does not train the language model under it.
Changed: advantages are standardised over a round, as elsewhere here.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Literal

from agentgym.evaluation.report import Report
from agentgym.trainers.credit import two_clock
from agentgym.trainers.critics.heads import TurnValueHead, value_head
from agentgym.trainers.recipes import turn
from agentgym.trainers.trainer import Trainer


@dataclass
class Config(turn.Config):
    """Settings of VL-DAC."""

    ratio: Literal["token", "turn", "trajectory"] = "token"
    """What has a probability ratio of its own."""
    critic_detach: bool = True
    """Whether the critic only reads the model's hidden states and does not train them."""


def main(config: Config) -> list[Report]:
    """Trains a policy with VL-DAC; returns its evaluations."""
    return Trainer(
        "vl_dac",
        config,
        credit=two_clock.turn(config.gamma, config.lambda_turn),
        critic=value_head(TurnValueHead, config),
    ).run()


if __name__ == "__main__":
    from agentgym.trainers.run.cli import main as command

    sys.exit(command("vl_dac", sys.argv[1:]))
