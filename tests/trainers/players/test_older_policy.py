"""Cross-policy sampling: an older copy of the policy plays a share of the turns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from agentgym.errors import ConfigError
from agentgym.trainers import recipes, train
from agentgym.trainers.api import make_trainer
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.policy.collate import collate, segment_rows
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.recipes import grpo
from agentgym.trainers.run.logger import read_metrics
from agentgym.trainers.update.mismatch import staleness

FEW: dict[str, Any] = {
    "env_id": "NumberLine-v0", "env_kwargs": {"size": 6, "max_turns": 8}, "model": "nano",
    "context": "current", "instructions": False, "constrain": True, "eval_episodes": 0,
    "episodes_per_iteration": 16, "group_size": 4, "device": "cpu", "threads": 1, "quiet": True,
    "lr": 3e-3, "epochs": 1, "log_with": (), "cross_policy": 0.3, "cross_policy_every": 2,
}  # fmt: skip


@torch.no_grad()
def logprobs_of(policy: Policy, batch: Batch) -> np.ndarray:
    found = np.zeros(batch.num_tokens, np.float32)
    collated = collate(batch, segment_rows(batch), policy.pad_token)
    found[collated.index] = policy(collated).logprobs
    return found


def test_turns_record_the_distribution_of_the_weights_that_sampled_them(tmp_path: Path):
    trainer = make_trainer("grpo", **FEW, iterations=1, run_dir=str(tmp_path))
    first = trainer.policy.frozen_copy()
    trainer.run()
    trainer.policy.version = 1
    batch = Batch.of(trainer.play(trainer.rollouts.episodes(1)))
    older = staleness(batch, 1) == 1
    assert 0.2 < older.mean() < 0.4
    mixed = [{turn.version for turn in t.turns} == {0, 1} for t in batch.trajectories]
    assert any(mixed)
    before, now = logprobs_of(first, batch), logprobs_of(trainer.policy, batch)
    assert np.abs(before - now)[older].max() > 1e-2
    np.testing.assert_allclose(batch.logprobs, np.where(older, before, now), atol=1e-5)


@pytest.mark.slow
def test_older_turns_have_importance_weights(tmp_path: Path):
    train("grpo", **FEW, iterations=5, run_dir=str(tmp_path))
    rows = read_metrics(tmp_path)
    assert [row["rollout/staleness_max"] for row in rows] == [0, 1, 0, 1, 0]
    assert 0.2 < rows[3]["rollout/stale_tokens"] < 0.4
    gaps = [abs(row["losses/importance_weight"] - 1) for row in rows]
    assert max(gaps[::2]) < 1e-5
    assert max(gaps[1::2]) > 1e-4


@pytest.mark.slow
def test_a_resumed_run_finds_the_older_policy(tmp_path: Path):
    whole, parts = (str(tmp_path / name) for name in ("whole", "parts"))
    settings: dict[str, Any] = FEW | {"save_every": 1, "keep": 1}
    train("grpo", **settings, iterations=4, run_dir=whole)
    for iterations in (3, 4):
        train("grpo", **settings, iterations=iterations, run_dir=parts, resume=True)
    losses = [[row["losses/policy_loss"] for row in read_metrics(p)] for p in (whole, parts)]
    assert losses[0] == losses[1]
    assert [folder.name for folder in sorted(Path(whole, "pool").iterdir())] == ["000002"]


def test_settings_that_cannot_work_are_refused():
    assert grpo.Config.of(cross_policy=0.5).loss.importance_cap == 5.0
    with pytest.raises(ConfigError, match="two policies act in turn"):
        grpo.Config.of(cross_policy=0.5, rollout_workers=1)
    with pytest.raises(ConfigError, match="cross_policy_every must be at least 2, got 1"):
        grpo.Config.of(cross_policy=0.5, cross_policy_every=1)
    with pytest.raises(ConfigError, match="episodes of one agent"):
        grpo.Config.of(cross_policy=0.5, opponents="mirror")
    for recipe in ("bc", "eto", "ilql", "mc", "archer_iql", "nlpo"):
        with pytest.raises(ConfigError, match="has no cross_policy"):
            recipes.load(recipe).Config.of(cross_policy=0.5)
