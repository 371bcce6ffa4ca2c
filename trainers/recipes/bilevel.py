"""Bi-level GAE: over turns first, then over the tokens of each turn (VAGEN, arXiv 2510.16907).

"VAGEN: Reinforcing World Model Reasoning for Multi-Turn VLM Agents". Like POAD, a critic values the
state before every token. Credit is assigned in two passes: from turn to turn, A_t = r_t + gamma
V_{t+1} - V_t + gamma lambda A_{t+1} at the last tokens, and inside each turn towards its A_t.

Kept: the two passes and their two discounts. Changed: where a turn ends is recorded by the
rollout; the authors' code infers it from non-zero rewards and loses turns without one.
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
    """Settings of bi-level GAE."""

    gamma: float = 0.95
    """Discount from one turn to the next."""
    lambda_turn: float = 1.0
    """Trace decay from one turn to the next."""
    gamma_token: float = 1.0
    """Discount inside a turn."""
    lambda_token: float = 1.0
    """Trace decay inside a turn."""


def main(config: Config) -> list[Report]:
    """Trains a policy with bi-level GAE; returns its evaluations."""
    credit = two_clock.BilevelGAE(
        config.gamma_token, config.lambda_token, config.gamma, config.lambda_turn
    )
    return Trainer(
        "bilevel",
        config,
        credit=credit,
        critic=value_head(TokenValueHead, config),
    ).run()


if __name__ == "__main__":
    from agentgym.trainers.run.cli import main as command

    sys.exit(command("bilevel", sys.argv[1:]))
