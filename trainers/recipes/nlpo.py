"""NLPO: natural language policy optimisation (Ramamurthy et al., ICLR 2023, arXiv 2210.01241).

"Is Reinforcement Learning (Not) for Natural Language Processing: Benchmarks, Baselines, and
Building Blocks for Natural Language Policy Optimization". PPO over tokens, where each token is
drawn among those that a *masking policy* finds probable: the fewest that hold `top_p` of its
probability. The masking policy is a copy of the policy that lags behind by up to `mask_every`
rounds, so what was good a while ago bounds what is tried now, and a large vocabulary is no trap.

Kept: the top-p mask (0.9) from a lagged copy, token-level credit as in `ntpo`. Changed: the ratio
is that of the masked distribution which tokens were drawn from, on both sides (the authors' update
scores tokens over the whole vocabulary); the divergence penalty is an option (`kl_coef`, `kl_in`).
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from agentgym.errors import ConfigError
from agentgym.evaluation.report import Report
from agentgym.trainers.credit import two_clock
from agentgym.trainers.critics.heads import TokenValueHead, value_head
from agentgym.trainers.hooks.base import Experience
from agentgym.trainers.recipes import ntpo
from agentgym.trainers.trainer import Trainer
from agentgym.trainers.trajectory import Trajectory


@dataclass
class Config(ntpo.Config):
    """Settings of NLPO."""

    top_p: float = 0.9
    """Sample among the most probable tokens of the masking policy that hold this much."""
    mask_every: int = 5
    """Rounds after which the masking policy is made the present one again."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        super().__post_init__()
        if self.mask_every < 1:
            raise ConfigError(f"mask_every must be at least 1, got {self.mask_every}.")
        if self.normalization is not None:
            raise ConfigError("nlpo draws token by token: leave normalization at None.")


class LaggedMask(Experience):
    """Keeps the masking policy; in the rounds right after it was made, it is the policy itself."""

    def __init__(self, trainer: Trainer, config: Config):
        super().__init__()
        self.policy, self.every = trainer.policy, config.mask_every

    def gather(
        self, fresh: list[Trajectory], iteration: int, rng: np.random.Generator
    ) -> list[Trajectory]:
        """Returns the round; before its update the policy becomes the mask, when it is time."""
        if iteration % self.every == 0:
            self.policy.follow(self.policy.frozen_copy())
        return fresh

    def state_dict(self) -> dict[str, Any]:
        """Returns the masking policy's weights."""
        guide = self.policy.guide
        return {"mask": None if guide is None else guide.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from a checkpoint."""
        if state["mask"] is not None:
            mask = self.policy.frozen_copy()
            mask.load_state_dict(state["mask"])
            self.policy.follow(mask)


def main(config: Config) -> list[Report]:
    """Trains a policy with NLPO; returns its evaluations."""
    return Trainer(
        "nlpo",
        config,
        credit=two_clock.ntpo(config.gamma, config.lambda_token),
        critic=value_head(TokenValueHead, config),
        experience=lambda trainer: LaggedMask(trainer, config),
    ).run()


if __name__ == "__main__":
    from agentgym.trainers.run.cli import main as command

    sys.exit(command("nlpo", sys.argv[1:]))
