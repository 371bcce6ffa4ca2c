"""Recipes with a model of rewards: what it is trained on, and what its rewards add up to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from agentgym.errors import ConfigError
from agentgym.trainers.credit import two_clock
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.recipes import inverse_prm, orm

from ...helpers.worlds import generators, random_batch, trajectory, values


class Model:
    """A model of actions with given values of the largest batch that it reads."""

    def __init__(self, q: np.ndarray):
        self.q, self.fitted = q, Batch.of([])

    def predict(self, batch: Batch) -> np.ndarray:
        return self.q[: batch.num_turns].astype(np.float32)

    def fit(self, batch: Batch, targets: Any, rng: np.random.Generator) -> list[float]:
        self.fitted = batch
        return [0.0]


@given(generators)
@settings(deadline=None, max_examples=25)
def test_inverse_rewards_add_up_to_q(rng):
    """With lambda 1, the advantage is Q(s, a) - V(s), plus the value after a turn limit."""
    batch = random_batch(rng, min_tokens=1)
    hook = inverse_prm.InverseReward.__new__(inverse_prm.InverseReward)
    hook.config = inverse_prm.Config.of(gamma=0.9)
    hook.shown = [trajectory([1], [0.0])]
    hook.model = Model(rng.normal(size=batch.num_turns))  # type: ignore[assignment]
    hook._resampled = lambda shown, rng: np.zeros(shown.num_turns)  # type: ignore[method-assign]
    critic = values(batch, rng)
    credit = two_clock.turn(0.9, 1.0)(hook.on_rewards(batch, None, 0, rng), critic)
    left = batch.turn_offsets[1:][batch.turn_trajectory] - np.arange(batch.num_turns)
    cut = np.where(batch.terminated, 0.0, critic.bootstrap)[batch.turn_trajectory]
    expected = hook.model.predict(batch) - critic.turns + 0.9**left * cut
    assert np.allclose(credit.advantages[batch.token_offsets[:-1]], expected, atol=1e-5)


def test_labels_of_orm_are_those_of_all_agents_of_a_start():
    some = [trajectory([1], [0.0], seed=n, agent=agent) for n in range(4) for agent in "ab"]
    hook = orm.OutcomeReward.__new__(orm.OutcomeReward)
    hook.label_every = 2
    hook.model = Model(np.zeros(8))  # type: ignore[assignment]
    hook.on_rewards(Batch.of(some), None, 0, np.random.default_rng(0))
    labelled = [(t.seed, t.agent) for t in hook.model.fitted.trajectories]  # type: ignore[attr-defined]
    assert labelled == [(0, "a"), (0, "b"), (2, "a"), (2, "b")]


@pytest.mark.parametrize("setting", [{"filter_groups": True}, {"group_weight": "difficulty"}])
def test_orm_uses_no_outcome_that_it_has_no_label_of(setting: dict[str, Any]):
    with pytest.raises(ConfigError, match="orm has no "):
        orm.Config.of(**setting)
