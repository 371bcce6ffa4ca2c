"""Filters and reward penalties applied to a rollout before credit assignment, in every recipe."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from agentgym.trainers.config import TrainConfig
from agentgym.trainers.trajectory import Batch, Trajectory

if TYPE_CHECKING:
    from agentgym.trainers.update.learner import ForwardPass


def without_equal_groups(
    trajectories: Sequence[Trajectory], outcome: str = "return"
) -> list[Trajectory]:
    """Drops groups whose episodes all have the same outcome, where group-relative credit is 0.

    This is the filter of DAPO (arXiv 2503.14476, "dynamic sampling") without its resampling. If no
    group would remain, all trajectories are returned. The agents of a game stay together, because
    team rewards and branches need all of an episode: a start is dropped if the outcomes of each of
    its agents are equal.

    Args:
        trajectories: the trajectories.
        outcome: the outcome that the recipe compares: "success", or else the return.
    """
    outcomes: dict[tuple[str, str, int, str], set[float]] = {}
    for trajectory in trajectories:
        found = trajectory.success if outcome == "success" else round(trajectory.episode_return, 9)
        outcomes.setdefault(trajectory.group, set()).add(found)
    mixed = {group[:3] for group, found in outcomes.items() if len(found) > 1}
    kept = [t for t in trajectories if t.group[:3] in mixed]
    return kept or list(trajectories)


def with_penalties(batch: Batch, forward: ForwardPass | None, config: TrainConfig) -> Batch:
    """Returns the batch with the overlong penalty and the KL penalty added to its rewards.

    The KL of a turn is estimated as the sum over its tokens of log pi - log reference, so the
    penalised return is the KL-regularised objective ("Fine-Tuning Language Models from Human
    Preferences", arXiv 1909.08593, eq. 2).

    Args:
        batch: the trajectories.
        forward: log-probabilities of policy and reference. Only the KL penalty needs it.
        config: `overlong_margin`, and `kl_coef` if `kl_in` is "reward".
    """
    rewards = batch.rewards
    if config.loss.overlong_margin:
        import torch

        from agentgym.trainers.update.losses import overlong_penalty

        lengths = torch.from_numpy(np.diff(batch.token_offsets).astype(np.float64))
        penalty = overlong_penalty(
            lengths, config.rollout.max_new_tokens, config.loss.overlong_margin
        )
        rewards = rewards + penalty.numpy()
    if config.loss.kl_coef and config.loss.kl_in == "reward":
        assert forward is not None
        divergence = np.bincount(batch.token_turn, forward.log_ratio, minlength=batch.num_turns)
        rewards = rewards - config.loss.kl_coef * divergence
    return batch if rewards is batch.rewards else batch.with_rewards(rewards)
