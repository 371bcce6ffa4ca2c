"""POAD: policy optimisation with action decomposition (arXiv 2405.15821, NeurIPS 2024).

"Reinforcing LLM Agents via Policy Optimization with Action Decomposition" (Wen et al.). A critic
values the state before *every token* of an action; credit flows from turn to turn with the discount
gamma, but inside an action without any: V(o, w_<j) <- V(o, w_<=j). So a long action is worth no
less than a short one, and each token gets its own advantage. The policy is updated with a clipped
ratio for each token, over the very distribution (constraint, temperature) the token was drawn from.

Kept: the Bellman backup with action decomposition, the token critic, the clipped token ratio.
Changed: the trace decay inside an action is 1 by default (`lambda_token`; the authors' code uses
the same lambda as between turns, which lets long actions forget the future), the critic is trained
with the policy rather than on frozen states (`critic_detach`), advantages are standardised over a
whole round, entropy bonus and early stopping are off (the authors: `entropy_coef` 1e-4 to 1e-2,
`target_kl` 0.02).
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
    """Settings of POAD."""

    gamma: float = 0.99
    """Discount from one turn to the next; inside an action there is none."""
    lambda_turn: float = 0.95
    """Trace decay from one turn to the next."""
    lambda_token: float = 1.0
    """Trace decay from one token of an action to the next."""


def main(config: Config) -> list[Report]:
    """Trains a policy with POAD; returns its evaluations."""
    return Trainer(
        "poad",
        config,
        credit=two_clock.poad(config.gamma, config.lambda_turn, config.lambda_token),
        critic=value_head(TokenValueHead, config),
    ).run()


if __name__ == "__main__":
    from agentgym.trainers.run.cli import main as command

    sys.exit(command("poad", sys.argv[1:]))
