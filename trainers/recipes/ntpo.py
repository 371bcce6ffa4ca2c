"""NTPO: naive token-level policy optimisation, the baseline of POAD (arXiv 2405.15821).

"Reinforcing LLM Agents via Policy Optimization with Action Decomposition" (Wen et al.) argues
against it. As POAD, but every token counts as a step of the Markov decision process, V(o, w_<j) <-
gamma V(o, w_<=j): discount and trace decay apply from token to token, also inside an action. What a
reward is worth then depends on how many tokens the actions before it happened to have. It is what a
GAE over a masked chat computes.

Everything but the two discounts is that of `poad.py`.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from agentgym.evaluation.report import Report
from agentgym.trainers.config import TrainConfig
from agentgym.trainers.credit import two_clock
from agentgym.trainers.critics.heads import TokenValueHead, value_head
from agentgym.trainers.trainer import Trainer


@dataclass
class Config(TrainConfig):
    """Settings of NTPO."""

    gamma: float = 0.99
    """Discount from one token to the next."""
    lambda_token: float = 0.95
    """Trace decay from one token to the next."""


def main(config: Config) -> list[Report]:
    """Trains a policy with NTPO; returns its evaluations."""
    return Trainer(
        "ntpo",
        config,
        credit=two_clock.ntpo(config.gamma, config.lambda_token),
        critic=value_head(TokenValueHead, config),
    ).run()


if __name__ == "__main__":
    from agentgym.trainers.run.cli import main as command

    sys.exit(command("ntpo", sys.argv[1:]))
