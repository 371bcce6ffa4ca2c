"""Filters and reward penalties applied to a rollout before credit assignment, in every recipe."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from agentgym.trainers.credit.scan import Float64
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.trajectory import IntArray, Trajectory
from agentgym.trainers.settings.config import TrainConfig

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
    if config.reward.overlong_margin:
        penalty = overlong_penalty(
            np.diff(batch.token_offsets),
            config.rollout.max_new_tokens,
            config.reward.overlong_margin,
        )
        rewards = rewards + penalty
    if config.loss.penalises_rewards:
        assert forward is not None
        divergence = np.bincount(batch.token_turn, forward.log_ratio, minlength=batch.num_turns)
        rewards = rewards - config.loss.kl_coef * divergence
    return batch if rewards is batch.rewards else batch.with_rewards(rewards)


def overlong_penalty(lengths: IntArray, limit: int, margin: int) -> Float64:
    """Returns the soft overlong penalty of lengths in tokens, a term of the reward in [-1, 0].

    The penalty is 0 up to limit - margin tokens and decreases linearly to -1 at `limit`.

    Source: "DAPO: An Open-Source LLM Reinforcement Learning System at Scale", arXiv 2503.14476,
    eq. 13.

    Args:
        lengths: lengths of actions or trajectories in tokens, any shape.
        limit: the length at which the penalty reaches -1.
        margin: number of tokens before `limit` over which the penalty grows.

    Raises:
        ValueError: unless 0 < margin <= limit.
    """
    if not 0 < margin <= limit:
        raise ValueError(f"margin must be in (0, limit], got margin {margin} and limit {limit}.")
    return np.clip((limit - margin - lengths) / margin, -1.0, 0.0)
