"""MC: offline, advantage-weighted by Monte-Carlo returns (arXiv 2311.18232).

A baseline of "LMRL Gym: Benchmarks for Multi-Turn Reinforcement Learning with Language Models". A
critic of tokens is regressed on the discounted return that followed in a fixed data set; actions
that did better than it expects are imitated more: "Advantage-Weighted Regression", arXiv
1910.00177. No bootstrapping, so it cannot combine the good parts of different episodes.

Kept: Monte-Carlo targets. Changed: the policy is extracted by weighted imitation instead of adding
the critic's values to its logits while decoding, so that it is an ordinary policy afterwards.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace

from agentgym.evaluation.report import Report
from agentgym.trainers.credit import two_clock
from agentgym.trainers.credit.turn_rewards import weights_of
from agentgym.trainers.critics.heads import TokenValueHead, value_head
from agentgym.trainers.hooks import dataset as offline
from agentgym.trainers.trainer import Trainer
from agentgym.trainers.trajectory import Batch, Credit, Values


@dataclass
class Config(offline.Config):
    """Settings of Monte-Carlo advantage weighting."""

    gamma: float = 0.99
    """Discount from one turn to the next; inside an action there is none."""
    beta: float = 5.0
    """How much better actions count more."""


@dataclass(frozen=True)
class MonteCarloWeight:
    """min(exp(beta (G - V)), 20) for every token, and G as the critic's target.

    Attributes:
        gamma: discount of a turn.
        beta: how much better actions count more.
    """

    gamma: float = 0.99
    beta: float = 5.0

    def __call__(self, batch: Batch, values: Values | None) -> Credit:
        """Returns weights and targets of a token critic."""
        credit = two_clock.poad(self.gamma, 1.0)(batch, values)
        return replace(credit, advantages=weights_of(credit.advantages, self.beta))


def main(config: Config) -> list[Report]:
    """Trains a policy on a fixed data set; returns its evaluations."""
    return Trainer(
        "mc",
        config,
        credit=MonteCarloWeight(config.gamma, config.beta),
        critic=value_head(TokenValueHead, config),
        experience=lambda trainer: offline.DataSet(trainer, config),
    ).run()


if __name__ == "__main__":
    from agentgym.trainers.run.cli import main as command

    sys.exit(command("mc", sys.argv[1:]))
