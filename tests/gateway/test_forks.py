"""A fork of a conversation repeats its past as context, and changes nothing about the loss."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from agentgym.trainers.data.batch import Batch, Credit
from agentgym.trainers.data.trajectory import Segment, Trajectory
from agentgym.trainers.policy.tiny import tiny_policy
from tests.helpers.short_of_memory import updater_of
from tests.helpers.worlds import trajectory


def whole() -> list[Trajectory]:
    """Episodes of two and of one turn, with random tokens."""
    rng = np.random.default_rng(0)
    found = [trajectory([3, 4], [0, 1], padding=5), trajectory([2], [0], padding=6)]
    for each in found:
        each.segments[0] = Segment(rng.integers(5, 40, len(each.segments[0].tokens), np.int32))
    return found


def forked(each: Trajectory) -> Trajectory:
    """The episode with a segment per turn, which begins with all that came before."""
    tokens = each.segments[0].tokens
    segments = [Segment(tokens[: turn.stop]) for turn in each.turns]
    turns = [replace(turn, segment=place) for place, turn in enumerate(each.turns)]
    return replace(each, segments=segments, turns=turns)


def update(trajectories: list[Trajectory], aggregation: str) -> dict[str, float]:
    policy = tiny_policy("NumberLine-v0", seed=0, size="nano")
    updater = updater_of(policy, aggregation=aggregation, minibatches=1, critic_backbone="shared")
    batch = Batch.of(trajectories)
    credit = np.linspace(-1, 1, batch.num_tokens, dtype=np.float32)
    forward = updater.evaluate_actions(batch, reference=False)
    assert forward.values is not None and forward.values.tokens is not None
    return updater.update(batch, Credit(credit, forward.values.tokens + 1), forward, 0)


@pytest.mark.parametrize("aggregation", ["token", "turn", "trajectory", "constant"])
def test_a_fork_has_the_loss_and_the_gradient_of_the_whole_conversation(aggregation: str):
    expected = update(whole(), aggregation)
    found: dict[str, Any] = update([forked(each) for each in whole()], aggregation)
    assert expected["policy_grad_norm"] > 0
    for name in ("policy_loss", "policy_grad_norm", "value_loss", "value_grad_norm", "entropy"):
        assert found[name] == pytest.approx(expected[name], rel=1e-4, abs=1e-6), name
