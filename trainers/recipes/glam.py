"""GLAM: PPO over listed actions by their plain log-probability (arXiv 2302.02662).

Carta et al., "Grounding Large Language Models in Interactive Environments with Online Reinforcement
Learning", ICML 2023.

Like TWOSOME with scores that are sums: the probability of an action is proportional to the
probability of saying it. The prompt holds the last three turns.

Kept: the scores, gamma = lambda = 0.99, the short window, four passes, the entropy bonus. Changed:
any causal model stands in for the authors' encoder-decoder; scores are sums of log-probabilities
(their code sums logits, padding included).
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from agentgym.evaluation.report import Report
from agentgym.trainers.policy.sampling import Normalization
from agentgym.trainers.recipes import twosome
from agentgym.trainers.rollout.context import Mode


@dataclass
class Config(twosome.Config):
    """Settings of GLAM."""

    normalization: Normalization | None = "sum"
    """How they are drawn: token by token (None), or as a whole by a softmax over the sums of their
    log-probs ("sum"), divided by their tokens ("token") or words ("word")."""
    context: Mode = "window"
    """What the model reads: everything, the last `window` turns, the current observation and all
    earlier actions, or the current observation alone."""
    lambda_turn: float = 0.99
    """Trace decay from one turn to the next."""
    epochs: int = 4
    """Passes over what was collected."""
    entropy_coef: float = 0.01
    """Weight of an entropy bonus."""


def main(config: Config) -> list[Report]:
    """Trains a policy with GLAM; returns its evaluations."""
    return twosome.train("glam", config)


if __name__ == "__main__":
    from agentgym.trainers.run.cli import main as command

    sys.exit(command("glam", sys.argv[1:]))
