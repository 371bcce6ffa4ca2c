"""NLPO: token-level PPO with a top-p mask from a lagged copy of the policy.

"Is Reinforcement Learning (Not) for Natural Language Processing: Benchmarks, Baselines, and
Building Blocks for Natural Language Policy Optimization" (Ramamurthy et al., ICLR 2023, arXiv
2210.01241). Tokens are sampled from the nucleus of a *masking policy*: its most probable tokens
with a total probability of `top_p`. The masking policy is a copy of the policy, renewed every
`mask_every` iterations, and restricts exploration in large vocabularies.

Kept: the top-p mask (0.9) of a lagged copy, the ratio of masked distributions, token-level credit
as in `ntpo`. Changed: the copy is renewed every 5 iterations (theirs: 20). Special tokens may be
masked (theirs never are). Advantages are standardised over the batch (theirs: over minibatches).
The KL penalty is an option (`kl_coef`, `kl_in`). Advantages that vary more than returns lower the
learning rate (`lr_by_reliability`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from agentgym.trainers.algorithm import Algorithm, PolicyGradient, value_head
from agentgym.trainers.credit import two_clock
from agentgym.trainers.data.learn import Learn
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.hooks.base import RecipeHooks
from agentgym.trainers.settings import Fraction, Positive, RolloutConfig, When, defaults
from agentgym.trainers.settings.kinds import ActorCriticConfig

if TYPE_CHECKING:
    from agentgym.trainers.hooks.run import Run


@dataclass
class Config(ActorCriticConfig):
    """Settings of NLPO."""

    lacks: ClassVar[tuple[str, ...]] = (
        "normalization",
        "engine",
        "rollout_workers",
        "cross_policy",
    )
    conditions: ClassVar[Mapping[str, When]] = {"shape_progress": When("gamma", (1.0,))}

    rollout: RolloutConfig = defaults(RolloutConfig, top_p=0.9)
    gamma: Fraction = 0.99
    """Discount between tokens."""
    lambda_token: Fraction = 0.95
    """GAE lambda between tokens."""
    mask_every: Positive = 5
    """Iterations between renewals of the masking policy."""


class LaggedMask(RecipeHooks):
    """Keeps the masking policy.

    Args:
        trainer: the trainer of the policy.
        config: the settings.
    """

    def __init__(self, trainer: Run, config: Config):
        super().__init__()
        self.policy, self.every = trainer.policy, config.mask_every

    def on_rollout_end(
        self, fresh: list[Trajectory], iteration: int, rng: np.random.Generator
    ) -> Learn:
        """Renews the masking policy if it is due, before the update and returns the rollout."""
        if iteration % self.every == 0:
            self.policy.follow(self.policy.frozen_copy())
        return Learn(fresh)

    def state_dict(self) -> dict[str, Any]:
        """Returns the weights of the masking policy."""
        guide = self.policy.guide
        return {"mask": None if guide is None else guide.own_weights()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores a checkpoint."""
        if state["mask"] is not None:
            mask = self.policy.frozen_copy()
            mask.load_own_weights(state["mask"])
            self.policy.follow(mask)


def build(config: Config) -> Algorithm:
    """Returns the parts of NLPO."""
    return Algorithm(
        PolicyGradient(
            two_clock.ntpo(config.gamma, config.lambda_token), critic=value_head("tokens", config)
        ),
        seats="shared",
        hooks=lambda trainer: LaggedMask(trainer, config),
    )
