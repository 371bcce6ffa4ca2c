"""Log-probabilities of the admissible actions of turns, for transcripts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentgym.trainers.data.batch import Batch
from agentgym.trainers.policy.candidates import sampling_logprobs
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy.sampling import Sampling

Alternatives = Mapping[int, list[list[Any]]]
"""By turn of a batch: admissible actions with their log-probabilities."""
MOST_ALTERNATIVES = 64


def find_alternatives(
    policies: Mapping[str, Policy], batch: Batch, count: int, sampling: Sampling
) -> dict[int, list[list[Any]]]:
    """Returns the admissible actions of turns, the most probable first, with log-probabilities.

    Only for actions that were sampled from at most `MOST_ALTERNATIVES` admissible ones without
    top-k and top-p, by a model that reads them as one tree.

    Args:
        policies: the policy of each role. A single one with the name "" has all trajectories.
        batch: the trajectories.
        count: of the first so many trajectories.
        sampling: how actions are sampled.

    Returns:
        By turn of the batch, pairs of text and log-probability.
    """
    if sampling.top_k or sampling.top_p < 1 or sampling.temperature <= 0:
        return {}
    asked: dict[str, list[int]] = {}
    for m in range(int(batch.turn_offsets[min(count, len(batch.trajectories))])):
        turn, role = batch.turns[m], batch.trajectories[batch.turn_trajectory[m]].role
        if turn.support is not None and 1 < len(turn.admissible) <= MOST_ALTERNATIVES:
            asked.setdefault("" if "" in policies else role, []).append(m)
    alternatives = {}
    for role, policy in policies.items():
        found = asked.get(role, [])
        if not found or not (policy.blocks or sampling.normalization is not None):
            continue
        turns, owners = [batch.turns[m] for m in found], batch.turn_trajectory[found]
        segments = [batch.trajectories[n].segments for n in owners]
        prompts = [
            own[turn.segment].tokens[: turn.start]
            for own, turn in zip(segments, turns, strict=True)
        ]
        scores = sampling_logprobs(policy, prompts, [turn.admissible for turn in turns], sampling)
        for m, turn, logprobs in zip(found, turns, scores, strict=True):
            pairs = [
                [text, round(float(x), 5)]
                for text, x in zip(turn.admissible, logprobs, strict=True)
            ]
            alternatives[m] = sorted(pairs, key=lambda pair: -pair[1])
    return alternatives
