"""Scores of whole episodes: the mean scores of their turns by a judge."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from agentgym.trainers.credit.joint import Joint
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.rewards.chat_judge import ChatJudge
from agentgym.trainers.rewards.shaping import Scorer, turn_scores


def mean_scores(batch: Batch, source: str, score: Scorer) -> list[float]:
    """Returns the mean score in [0, 1] of the turns of each trajectory.

    Args:
        batch: the trajectories.
        source: the source of the scores (see `turn_scores`).
        score: its function.
    """
    scores = turn_scores(batch, source, score)
    sums = np.bincount(batch.turn_trajectory, scores, minlength=len(batch.trajectories))
    return (sums / np.diff(batch.turn_offsets)).tolist()


def readable_scores(
    trajectories: Sequence[Trajectory], source: str, score: Scorer
) -> list[float | None]:
    """Returns `mean_scores`, with None for an episode on which a model's reply is unreadable."""
    batch = Batch.of(trajectories)
    found = mean_scores(batch, source, score)
    if not isinstance(score, ChatJudge):
        return list(found)
    episodes = Joint.of(batch).episode.tolist()
    return [
        None if score.missing[episode] else value
        for episode, value in zip(episodes, found, strict=True)
    ]
