"""Batches to test estimators on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from agentgym.trainers.data.batch import Batch, Values
from agentgym.trainers.data.trajectory import Segment, Trajectory, Turn


def trajectory(
    lengths: Sequence[int],
    rewards: Sequence[float],
    *,
    terminated: bool = True,
    keys: Sequence[str] | None = None,
    task: str = "task",
    seed: int = 0,
    agent: str = "",
    actions: Sequence[str] | None = None,
    padding: int = 0,
    success: bool = False,
    observations: Sequence[str] | None = None,
    final_key: str = "",
) -> Trajectory:
    """One trajectory in one segment, `padding` observation tokens before each action."""
    turns, position = [], 0
    for t, (length, reward) in enumerate(zip(lengths, rewards, strict=True)):
        position += padding
        turns.append(
            Turn(
                segment=0,
                start=position,
                stop=position + length,
                logprobs=np.full(length, -1.0, np.float32),
                support=None,
                observation=observations[t] if observations else "",
                action=actions[t] if actions else "",
                reward=reward,
                reward_terms={},
                valid=True,
                progress=0.0,
                state_key=keys[t] if keys else str(t),
            )
        )
        position += length
    return Trajectory(
        env_id="env",
        task=task,
        seed=seed,
        segments=[Segment(np.zeros(position, np.int32))],
        turns=turns,
        terminated=terminated,
        truncated=not terminated,
        success=success,
        final_state_key=final_key,
        agent=agent,
    )


def values(batch: Batch, rng: np.random.Generator) -> Values:
    """Random values; those of turns agree with those of their first tokens."""
    tokens = rng.normal(size=batch.num_tokens).astype(np.float32)
    turns = rng.normal(size=batch.num_turns).astype(np.float32)
    full = np.diff(batch.token_offsets) > 0
    turns[full] = tokens[batch.token_offsets[:-1][full]]
    return Values(tokens, turns, rng.normal(size=len(batch.trajectories)).astype(np.float32))


def random_batch(
    rng: np.random.Generator,
    trajectories: int = 6,
    max_turns: int = 5,
    max_tokens: int = 7,
    min_tokens: int = 0,
) -> Batch:
    """A ragged batch of two tasks, some trajectories cut off."""
    out = []
    for n in range(trajectories):
        turns = int(rng.integers(1, max_turns + 1))
        out.append(
            trajectory(
                rng.integers(min_tokens, max_tokens + 1, turns).tolist(),
                rng.normal(size=turns).tolist(),
                terminated=bool(rng.random() < 0.5),
                task=f"task{n % 2}",
                keys=[str(k) for k in rng.integers(0, 3, turns)],
            )
        )
    return Batch.of(out)


generators = st.integers(0, 2**32 - 1).map(np.random.default_rng)
