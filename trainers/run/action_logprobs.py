"""Log-probabilities of the admissible actions of turns, for transcripts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from agentgym.trainers.data.batch import Batch
from agentgym.trainers.policy.candidates import sampling_logprobs
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy.sampling import Sampling
from agentgym.trainers.settings.config import TrainConfig
from agentgym.trainers.update.role_updater import RoleUpdater

Alternatives = Mapping[int, list[list[Any]]]
"""By turn of a batch: admissible actions with their log-probabilities."""
MOST_ALTERNATIVES = 64


def find_alternatives(
    policy: Policy, batch: Batch, count: int, sampling: Sampling
) -> dict[int, list[list[Any]]]:
    """Returns the admissible actions of turns, the most probable first, with log-probabilities.

    Only for actions that were sampled from at most `MOST_ALTERNATIVES` admissible ones without
    top-k and top-p, by a model that reads them as one tree.

    Args:
        policy: the policy.
        batch: the trajectories.
        count: of the first so many trajectories.
        sampling: how actions are sampled.

    Returns:
        By turn of the batch, pairs of text and log-probability.
    """
    if sampling.top_k or sampling.top_p < 1 or sampling.temperature <= 0:
        return {}
    if not policy.blocks and sampling.normalization is None:
        return {}
    found, prompts = [], []
    for m in range(int(batch.turn_offsets[min(count, len(batch.trajectories))])):
        turn = batch.turns[m]
        if turn.support is not None and 1 < len(turn.admissible) <= MOST_ALTERNATIVES:
            trajectory = batch.trajectories[batch.turn_trajectory[m]]
            found.append((m, turn.admissible))
            prompts.append(trajectory.segments[turn.segment].tokens[: turn.start])
    if not found:
        return {}
    scores = sampling_logprobs(policy, prompts, [texts for _, texts in found], sampling)
    alternatives = {}
    for (m, texts), logprobs in zip(found, scores, strict=True):
        pairs = [[text, round(float(x), 5)] for text, x in zip(texts, logprobs, strict=True)]
        alternatives[m] = sorted(pairs, key=lambda pair: -pair[1])
    return alternatives


def transcript_alternatives(
    config: TrainConfig, policies: Mapping[str, Policy], updaters: RoleUpdater, batch: Batch
) -> Alternatives:
    """Returns the alternatives in the transcripts of an iteration, before the weights change.

    Args:
        config: how actions are sampled, and the number of transcripts.
        policies: the policies by role.
        updaters: split the batch by role.
        batch: the trajectories.
    """
    count, sampling = config.run.transcripts, config.sampling()
    shown = batch.select(np.arange(min(count, len(batch.trajectories))))
    found: Alternatives = {}
    for role, part in updaters.split(shown).items():
        own = find_alternatives(policies[role], part.batch, count, sampling)
        found |= {int(part.turns[m]): pairs for m, pairs in own.items()}
    return found
