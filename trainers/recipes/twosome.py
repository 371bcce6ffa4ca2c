"""TWOSOME: PPO over listed actions, each scored as a whole (arXiv 2401.14151, ICLR 2024).

"True Knowledge Comes from Practice: Aligning LLMs with Embodied Environments via Reinforcement
Learning" (Tan et al.). The policy is a softmax over the admissible actions. An action's score is
the sum of its tokens' log-probabilities divided by its number of words: sums favour short actions,
and means over tokens favour long words whose later tokens are nearly certain. The action has one
ratio and one advantage, from a critic of observations.

Kept: the word normalisation, the action's own ratio, the update early-stopped by divergence.
Changed: what is optimised is the distribution that the action was drawn from, end of the action
included; advantages are standardised over a whole round, not over minibatches of four; the critic
trains the model under it (`critic_detach`); there is no entropy bonus (theirs: 0.01).
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from agentgym.evaluation.report import Report
from agentgym.trainers.credit import two_clock
from agentgym.trainers.critics.heads import TurnValueHead, value_head
from agentgym.trainers.policy.sampling import Normalization
from agentgym.trainers.recipes import turn
from agentgym.trainers.trainer import Trainer


@dataclass
class Config(turn.Config):
    """Settings of TWOSOME."""

    constrain: bool = True
    """Choose among the admissible actions wherever the environment lists them."""
    normalization: Normalization | None = "word"
    """How they are drawn: token by token (None), or as a whole by a softmax over the sums of their
    log-probs ("sum"), divided by their tokens ("token") or words ("word")."""
    target_kl: float | None = 0.02
    """End the passes of a round when the policy has moved this far (nats per token)."""


def main(config: Config) -> list[Report]:
    """Trains a policy with TWOSOME; returns its evaluations."""
    return train("twosome", config)


def train(recipe: str, config: Config) -> list[Report]:
    """Trains a policy over listed actions under the name of a recipe."""
    return Trainer(
        recipe,
        config,
        credit=two_clock.turn(config.gamma, config.lambda_turn),
        critic=value_head(TurnValueHead, config),
    ).run()


if __name__ == "__main__":
    from agentgym.trainers.run.cli import main as command

    sys.exit(command("twosome", sys.argv[1:]))
