"""Recipes with a model of rewards: what it is trained on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from agentgym.errors import ConfigError
from agentgym.trainers.recipes import orm
from agentgym.trainers.trajectory import Batch

from ...helpers.worlds import trajectory


class Model:
    """A model of actions with given values of the largest batch that it reads."""

    def __init__(self, q: np.ndarray):
        self.q, self.fitted = q, Batch.of([])

    def predict(self, batch: Batch) -> np.ndarray:
        return self.q[: batch.num_turns].astype(np.float32)

    def fit(self, batch: Batch, targets: Any, rng: np.random.Generator) -> list[float]:
        self.fitted = batch
        return [0.0]


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
    with pytest.raises(ConfigError, match="outcomes of most groups are unknown"):
        orm.Config.of(**setting)
