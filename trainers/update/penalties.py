"""What a round's trajectories go through before credit is assigned; the same for every recipe."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from agentgym.trainers.config import TrainConfig
from agentgym.trainers.trajectory import Batch, Trajectory
from agentgym.trainers.update.learner import ForwardPass
from agentgym.trainers.update.losses import overlong_penalty


def without_equal_groups(trajectories: Sequence[Trajectory]) -> list[Trajectory]:
    """Leaves out groups whose episodes all had the same return: group-relative credit is 0 there.

    The filter of DAPO (arXiv 2503.14476, "dynamic sampling") without its resampling. Where nothing
    would be left, everything stays.
    """
    returns: dict[tuple[str, str, int, str], set[float]] = {}
    for trajectory in trajectories:
        returns.setdefault(trajectory.group, set()).add(round(trajectory.episode_return, 9))
    kept = [t for t in trajectories if len(returns[t.group]) > 1]
    return kept or list(trajectories)


def with_penalties(batch: Batch, forward: ForwardPass | None, config: TrainConfig) -> Batch:
    """Adds to the rewards what the settings charge for: length, and divergence.

    The divergence of a turn is the sum over its tokens of log pi - log reference, the estimate that
    makes the penalised return that of KL-regularised learning ("Fine-Tuning Language Models from
    Human Preferences", arXiv 1909.08593, eq. 2).
    """
    rewards = batch.rewards
    if config.loss.overlong_margin:
        lengths = torch.from_numpy(np.diff(batch.token_offsets).astype(np.float64))
        penalty = overlong_penalty(
            lengths, config.rollout.max_new_tokens, config.loss.overlong_margin
        )
        rewards = rewards + penalty.numpy()
    if config.loss.kl_coef and config.loss.kl_in == "reward":
        assert forward is not None and forward.reference is not None
        difference = forward.logprobs.astype(np.float64) - forward.reference
        divergence = np.bincount(batch.token_turn, difference, minlength=batch.num_turns)
        rewards = rewards - config.loss.kl_coef * divergence
    return batch if rewards is batch.rewards else batch.with_rewards(rewards)
