"""`RewardOptions`: all settings that change rewards, applied before credit assignment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from agentgym.trainers.credit.scan import Float64
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.rewards.chat_judge import ChatJudge
from agentgym.trainers.rewards.penalties import with_penalties
from agentgym.trainers.rewards.shaping import (
    new_states,
    process_rewards,
    rarity,
    reward_term,
    scorer,
    shape_by_progress,
    turn_scores,
)
from agentgym.trainers.settings.config import TrainConfig

if TYPE_CHECKING:
    from agentgym.trainers.update.learner import ForwardPass


class RewardOptions:
    """Changes rewards: weights of terms, process rewards, bonuses, shaping and penalties in turn.

    Args:
        config: the settings.
        instructions: instructions of the environments by id, for a judge that is a language model.
        gamma: discount per turn of the credit function.
        bootstraps: whether a critic bootstraps truncated trajectories.
        joint: whether the credit is joint (see `credit.returns.is_joint`).

    Attributes:
        weights: weights of the constrained reward terms, by name. They start at 1.
        counts: how often each action was taken in each state, for the count bonus (see `rarity`).
        metrics: numbers of the last iteration to log.
    """

    def __init__(
        self,
        config: TrainConfig,
        instructions: Mapping[str, str] | None = None,
        *,
        gamma: float = 1.0,
        bootstraps: bool = False,
        joint: bool = False,
    ):
        self.config, self.settings = config, config.reward
        source = self.settings.process_reward
        self._scorer = scorer(source, instructions) if source else None
        self.gamma, self.bootstraps, self.joint = gamma, bootstraps, joint
        self.weights = dict.fromkeys(self.settings.reward_constraints, 1.0)
        self.counts: dict[str, int] = {}
        self.metrics: dict[str, float] = {}

    def __call__(self, batch: Batch, iteration: int, forward: ForwardPass | None = None) -> Batch:
        """Returns the batch with the rewards that credit is assigned from.

        It is `weighed`, and then `changed`.

        Args:
            batch: the trajectories.
            iteration: the number of finished iterations.
            forward: log-probabilities of policy and reference, for the KL penalty.
        """
        return self.changed(self.weighed(batch), iteration, forward)

    def weighed(self, batch: Batch) -> Batch:
        """Returns the batch with the weights of the constrained terms in its rewards.

        Hooks that make other rewards of them, such as those of a team, do so afterwards.
        """
        for name, weight in self.weights.items():
            rewards = batch.rewards + (weight - 1.0) * turn_terms(batch, name)
            batch = scaled(batch, rewards, weight, name)
        return batch

    def changed(self, batch: Batch, iteration: int, forward: ForwardPass | None = None) -> Batch:
        """Returns a weighed batch with process rewards, bonuses, shaping and penalties."""
        settings = self.settings
        if settings.process_reward and (share := self.process_weight(iteration)):
            scores = turn_scores(batch, settings.process_reward, self._scorer)
            self.metrics["process_score"] = float(scores.mean())
            if isinstance(self._scorer, ChatJudge):
                self.metrics["judge_unread"] = self._scorer.unread
            process = process_rewards(batch, scores, settings.process_combine)
            batch = scaled(batch, (1.0 - share) * batch.rewards + share * process, 1.0 - share)
        if settings.novelty_bonus:
            batch = batch.with_rewards(batch.rewards + settings.novelty_bonus * new_states(batch))
        if settings.count_bonus:
            bonus = settings.count_bonus * rarity(batch, self.counts)
            self.metrics["count_bonus"] = float(bonus.mean())
            batch = batch.with_rewards(batch.rewards + bonus)
        if settings.shape_progress:
            batch = shape_by_progress(
                batch,
                settings.shape_progress,
                self.gamma,
                bootstraps=self.bootstraps,
                joint=self.joint,
            )
        return with_penalties(batch, forward, self.config)

    def process_weight(self, iteration: int) -> float:
        """Returns the weight of process rewards, which falls linearly to 0 if they are annealed."""
        until = self.settings.process_iterations
        left = max(1.0 - iteration / until, 0.0) if until else 1.0
        return self.settings.process_weight * left

    def observe(self, played: Sequence[Trajectory]) -> None:
        """Raises the weights of terms below their threshold and lowers the others, at least to 0.

        This is a step on the Lagrangian of "Confronting Reward Model Overoptimization with
        Constrained RLHF" (arXiv 2310.04373), w_k <- max(0, w_k + lr (threshold_k - J_k)), with J_k
        the mean of the sum of term k over an episode.

        Args:
            played: the trajectories that the policy played, whether it learns from them or not.
        """
        for name, threshold in self.settings.reward_constraints.items():
            mean = turn_terms(Batch.of(played), name).sum() / len(played)
            step = self.settings.constraint_lr * (float(threshold) - mean)
            self.weights[name] = max(0.0, self.weights[name] + float(step))
            self.metrics |= {f"weight/{name}": self.weights[name], f"term/{name}": float(mean)}

    def state_dict(self) -> dict[str, Any]:
        """Returns the weights of the constrained terms and the counts."""
        return {"weights": dict(self.weights), "counts": dict(self.counts)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores a checkpoint."""
        self.weights |= state.get("weights", {})
        self.counts |= state.get("counts", {})


def scaled(batch: Batch, rewards: ArrayLike, factor: float, term: str | None = None) -> Batch:
    """Returns a batch with other rewards [M], of whose delayed parts some are scaled.

    Args:
        batch: the trajectories.
        rewards: the rewards, with these parts scaled.
        factor: their factor.
        term: name of the reward term of the parts. None: all of them.
    """
    parts = (
        part._replace(reward=part.reward * factor) if term in (None, part.term) else part
        for part in batch.delayed
    )
    return replace(batch.with_rewards(rewards), delayed=tuple(parts))


def turn_terms(batch: Batch, name: str) -> Float64:
    """Returns a reward term of each turn [M]."""
    return np.array([reward_term(turn.reward_terms, name) for turn in batch.turns], np.float64)
