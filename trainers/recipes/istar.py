"""iStar: implicit step rewards from a preference model that is trained online.

"Agentic Reinforcement Learning with Implicit Step Rewards" (also OPRL, arXiv 2509.19199). A second
copy of the policy is trained by DPO to prefer the better episodes of a group. The reward of a turn
is beta times the log-ratio between this model and the behaviour policy. The advantage is that of
the episode plus that of the turn, both leave-one-out.

Kept: beta = 0.05, the score of an episode as the mean over its turns, both advantages. Changed: a
turn is compared with all other turns of its group (the authors' code uses first turns only), and
advantages are standardised over the batch (`normalize_advantages none`: as theirs). At its end, a
run leaves the implicit reward of its last policy as a judge.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from agentgym.trainers.algorithm import Algorithm, PolicyGradient
from agentgym.trainers.credit.turn_rewards import StepBaseline, implicit_process_rewards
from agentgym.trainers.critics.log_ratio import LogRatio
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.replay import pairs_of
from agentgym.trainers.hooks.preference_model import PreferenceModel
from agentgym.trainers.policy_agent.agent import policy_agent
from agentgym.trainers.policy_agent.judge import Judge
from agentgym.trainers.settings import (
    CriticConfig,
    GroupRolloutConfig,
    NonNegative,
    RolloutConfig,
    all_but,
    defaults,
)
from agentgym.trainers.settings.kinds import RewardedConfig
from agentgym.trainers.system.checkpoint import replace_folder

if TYPE_CHECKING:
    from agentgym.trainers.hooks.run import Run
    from agentgym.trainers.update.learner import ForwardPass


@dataclass
class Config(RewardedConfig):
    """Settings of iStar."""

    lacks: ClassVar[tuple[str, ...]] = (
        *("shape_progress", "reward_constraints"),
        *all_but(CriticConfig, "critic_warmup"),
    )

    critic: CriticConfig = defaults(CriticConfig)
    rollout: RolloutConfig = defaults(GroupRolloutConfig)
    beta: NonNegative = 0.05
    """Temperature of the preference loss, and scale of the step rewards."""
    omega: NonNegative = 1.0
    """Weight of the turn-level comparison."""
    scale: bool = False
    """Divide by the group's standard deviation."""
    outcome: Literal["return", "success"] = "return"
    """Compared outcome: the return, or 1 for success and 0 otherwise."""
    model_lr: NonNegative = 6e-4
    """Learning rate of the preference model."""

    @property
    def compared_outcome(self) -> Literal["return", "success"]:
        """The setting `outcome`."""
        return self.outcome


class ImplicitReward(PreferenceModel):
    """Rewards turns with the log-ratios of a preference model and the behaviour policy.

    Args:
        trainer: the trainer of the policy.
        config: the settings.
    """

    def __init__(self, trainer: Run, config: Config):
        super().__init__(trainer, lr=config.model_lr, beta=config.beta)
        self.outcome: Literal["return", "success"] = config.outcome
        self.trainer = trainer

    def on_rewards(
        self, batch: Batch, forward: ForwardPass | None, iteration: int, rng: np.random.Generator
    ) -> Batch:
        """Fits the model to the pairs of the batch and returns the batch with implicit rewards."""
        pairs = pairs_of(batch.trajectories, self.outcome)
        logprobs = self.logprobs(batch, reuse=bool(pairs))
        share = 1.0 / np.diff(batch.turn_offsets)[batch.turn_trajectory[batch.token_turn]]
        accuracy = self.fit(batch, logprobs.astype(np.float64) - batch.logprobs, share, pairs)
        if not self.fitted:
            logprobs = batch.logprobs  # the model is the policy: log-ratios are rounding errors
        elif pairs:
            logprobs = self.logprobs(batch)
        self.metrics = {"pairs": float(len(pairs)), "preference_accuracy": accuracy}
        return implicit_process_rewards(batch, logprobs, beta=self.beta)

    def publish(self, folder: Path) -> None:
        """Writes the implicit reward to `folder/judge`, as a `Judge` of any agent's actions."""
        reader = policy_agent(self.trainer.config, self.model, "judge")
        model = LogRatio(self.model, self.trainer.policy, self.beta)
        replace_folder(folder / "judge", Judge(model, reader, whole=False).save)


def build(config: Config) -> Algorithm:
    """Returns the parts of iStar."""
    return Algorithm(
        PolicyGradient(StepBaseline(config.omega, config.scale, config.outcome)),
        outcomes="group",
        seats="shared",
        hooks=lambda trainer: ImplicitReward(trainer, config),
    )
