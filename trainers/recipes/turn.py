"""Turn-level PPO: one value an observation, one advantage a turn.

The critic values observations only (at the last token of the prompt); GAE runs over turns, A_t =
r_t + gamma V(o_{t+1}) - V(o_t) + gamma lambda A_{t+1}; all tokens of an action share its advantage.
`ratio` says what is clipped: a turn's own ratio, the mean of its tokens' in logarithms, or each
token's.

"Turn-PPO: Turn-Level Advantage Estimation with PPO for Improved Multi-Turn RL in Agentic LLMs"
(arXiv 2512.17008) and, before it, TWOSOME (`twosome`, arXiv 2401.14151). Kept: gamma 0.99, clipping
turn by turn. Changed: lambda is TWOSOME's 0.95 (Turn-PPO's is 0.9); actions are drawn token by
token from the constrained distribution whose probabilities enter the ratio, rather than from a
softmax over whole candidates.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Literal

from agentgym.evaluation.report import Report
from agentgym.trainers.config import TrainConfig
from agentgym.trainers.credit import two_clock
from agentgym.trainers.critics.heads import TurnValueHead, value_head
from agentgym.trainers.trainer import Trainer


@dataclass
class Config(TrainConfig):
    """Settings of turn-level PPO."""

    ratio: Literal["token", "turn", "trajectory"] = "turn"
    """What has a probability ratio of its own."""
    gamma: float = 0.99
    """Discount from one turn to the next."""
    lambda_turn: float = 0.95
    """Trace decay from one turn to the next."""


def main(config: Config) -> list[Report]:
    """Trains a policy with turn-level PPO; returns its evaluations."""
    return Trainer(
        "turn",
        config,
        credit=two_clock.turn(config.gamma, config.lambda_turn),
        critic=value_head(TurnValueHead, config),
    ).run()


if __name__ == "__main__":
    from agentgym.trainers.run.cli import main as command

    sys.exit(command("turn", sys.argv[1:]))
