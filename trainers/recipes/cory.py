"""CORY: PPO for a pioneer and an observer who exchange their roles.

`ntpo` with these defaults: gamma 1, kl_coef 0.4, kl_in reward, and the mean reward of the agents.

"Coevolving with the Other You: Fine-Tuning LLM with Sequential Cooperative Multi-Agent
Reinforcement Learning" (arXiv 2410.06101). Two copies of a model answer the same question. The
pioneer reads the question q, the observer also the pioneer's answer:

    a_1 ~ pi_1(q),    a_2 ~ pi_2(q, a_1),    each gets r(a_1) + r(a_2)

and both learn with token-level PPO, with a KL penalty in the reward. From time to time the copies
exchange their roles, so that both answer with and without help. Either may be used alone.

The team is `env_kwargs roles=pioneer-observer`, in which both answers are played and each agent has
the sum of their rewards. In other games, each has the mean of the agents' rewards. The two copies
are `roles separate exchange 5` (or `adapters`). With `roles shared`, one policy has both roles.

Kept: the common reward, the KL penalty in the reward with coefficient 0.4, clip 0.2, GAE over
tokens with gamma 1 and lambda 0.95, the exchange (theirs: every 5 updates). Changed: the
coefficient is fixed (theirs adapts it), an answer is charged for its KL at its end (theirs: token
by token), the copies keep their optimisers when they exchange roles (theirs makes new ones), and
rewards are not divided by their running deviation. In an episode of several turns, gamma and lambda
hold between turns as well. Advantages that vary more than returns lower the learning rate
(`lr_by_reliability`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from agentgym.trainers.algorithm import Algorithm, PolicyGradient, value_head
from agentgym.trainers.credit.joint import Joint
from agentgym.trainers.credit.two_clock import TwoClockGAE
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.hooks.base import RecipeHooks
from agentgym.trainers.settings import Fraction, LossConfig, When, defaults
from agentgym.trainers.settings.kinds import ActorCriticConfig

if TYPE_CHECKING:
    from agentgym.trainers.update.learner import ForwardPass


@dataclass
class Config(ActorCriticConfig):
    """Settings of CORY."""

    conditions: ClassVar[Mapping[str, When]] = {"shape_progress": When("gamma", (1.0,))}

    loss: LossConfig = defaults(LossConfig, kl_coef=0.4, kl_in="reward")
    gamma: Fraction = 1.0
    """Discount between tokens and between turns."""
    gae_lambda: Fraction = 0.95
    """GAE lambda between tokens and between turns."""


class CommonReward(RecipeHooks):
    """Gives every agent the rewards of the team."""

    def on_rewards(
        self, batch: Batch, forward: ForwardPass | None, iteration: int, rng: np.random.Generator
    ) -> Batch:
        """Returns the batch with the same rewards for all agents of an episode."""
        return batch.with_rewards(Joint.of(batch).common_rewards())


def build(config: Config) -> Algorithm:
    """Returns the parts of CORY."""
    gamma, decay = config.gamma, config.gae_lambda
    return Algorithm(
        PolicyGradient(
            TwoClockGAE(gamma, decay, gamma, decay), critic=value_head("tokens", config)
        ),
        outcomes="team",
        hooks=lambda _: CommonReward(),
    )
