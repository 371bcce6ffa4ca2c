"""`thought_information`: what the thoughts of a policy tell about their prompts.

A policy whose thoughts are varied, but the same for all prompts, has collapsed to a template. The
entropy of its tokens does not show that. The mutual information of prompts and thoughts does, as in
"RAGEN-2" (arXiv 2604.06268). With N prompts x, equally probable, and S thoughts z, each of which
was sampled after its own prompt x(z),

    I = mean over z of [log p(z | x(z)) - log mean over x of p(z | x)]

It is 0 if thoughts do not depend on prompts, and at most log N, if each belongs to one prompt only.
An estimate may be below 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from accelerate import Accelerator
from numpy.typing import ArrayLike, NDArray

from agentgym.trainers.critics.transitions import one_turn
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.trajectory import Tokens, Trajectory
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy.sampling import Sample, Sampling
from agentgym.trainers.system.processes import map_across_processes
from agentgym.trainers.update.action_logprobs import action_logprobs

PROMPTS = 8
"""Most prompts that are compared, each with a thought. All pairs are scored."""
LONGEST_THOUGHT = 256
"""Tokens of a thought that are scored. They tell no more than the whole thought."""


def mutual_information(logprobs: NDArray[np.floating], own: ArrayLike) -> float:
    """Returns an estimate of the mutual information of prompts and thoughts, in nats.

    Args:
        logprobs: [S, N] log-probability of each thought after each prompt.
        own: [S] index of the prompt after which each thought was sampled.
    """
    logprobs = np.asarray(logprobs, np.float64)
    most = logprobs.max(1)
    mean = most + np.log(np.exp(logprobs - most[:, None]).mean(1))
    return float((logprobs[np.arange(len(mean)), np.asarray(own)] - mean).mean())


def thought_information(
    policies: Mapping[str, Policy],
    trajectories: Sequence[Trajectory],
    sampling: Sampling,
    accelerator: Accelerator,
) -> dict[str, float]:
    """Returns the mutual information of the first prompts and first thoughts of episodes.

    They are those of one environment and role. There is none without two different prompts that
    were answered by a reply with a thought before its action.

    Args:
        policies: the policy of each role. A single one with the name "" has all trajectories.
        trajectories: the episodes of an iteration, also those that are not learned from.
        sampling: how replies are sampled. Top-k and top-p are left out of account.
        accelerator: whose processes share the pairs, so that none waits for another.
    """
    found: dict[tuple[str, str], dict[bytes, tuple[Tokens, Tokens]]] = {}
    for trajectory in trajectories:
        prompt, thought = _first_thought(trajectory)
        pairs = found.setdefault((trajectory.env_id, trajectory.role), {})
        if len(thought) and len(pairs) < PROMPTS:
            pairs.setdefault(prompt.tobytes(), (prompt, thought))
    if not found:
        return {}
    (_, role), best = max(found.items(), key=lambda item: len(item[1]))
    if len(best) < 2:
        return {}
    policy = policies["" if "" in policies else role]
    logprobs = _crossed(policy, [*best.values()], sampling, accelerator)
    information = mutual_information(logprobs, range(len(logprobs)))
    return {"rollout/thought_information": information}


def _first_thought(trajectory: Trajectory) -> tuple[Tokens, Tokens]:
    """Returns the tokens of the first prompt, and of the thought before the first action."""
    turn = trajectory.turns[0]
    tokens = trajectory.segments[turn.segment].tokens
    length = 0
    if turn.thought is not None and not trajectory.replayed:
        length = min(int(np.argmin([*turn.thought, False])), LONGEST_THOUGHT)
    return tokens[: turn.start], tokens[turn.start : turn.start + length]


def _crossed(
    policy: Policy,
    pairs: Sequence[tuple[Tokens, Tokens]],
    sampling: Sampling,
    accelerator: Accelerator,
) -> NDArray[np.float64]:
    """Returns the log-probability of each thought (row) after each prompt (column) [N, N]."""
    room = LONGEST_THOUGHT
    if policy.max_length is not None:
        room = max(1, policy.max_length - max(len(prompt) for prompt, _ in pairs))
    thoughts = [thought[:room] for _, thought in pairs]
    samples = [Sample(z, np.zeros(len(z), np.float32), None, "", True) for z in thoughts]
    crossed = [one_turn(0, x, (), sample) for sample in samples for x, _ in pairs]

    def score(some: Sequence[Trajectory]) -> list[float]:
        if not some:
            return []
        batch = Batch.of(some)
        tokens = action_logprobs(policy, batch, sampling).astype(np.float64)
        return np.add.reduceat(tokens, batch.token_offsets[:-1]).tolist()

    found = map_across_processes(accelerator, crossed, score)
    return np.array(found).reshape(len(pairs), len(pairs))
