"""Generation and training that compute different log-probabilities."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.trainers import train
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.packing import pack, unpack
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.run.logger import read_metrics
from agentgym.trainers.update.mismatch import importance_weights, logprob_gap, with_recomputed
from agentgym.trainers.update.updater import Diverged, Updater

from ...helpers.worlds import trajectory

FEW: dict[str, Any] = {
    "env_id": "NumberLine-v0", "env_kwargs": {"size": 6, "max_turns": 8}, "model": "nano",
    "context": "current", "instructions": False, "constrain": True, "eval_episodes": 0,
    "episodes_per_iteration": 16, "group_size": 4, "device": "cpu", "threads": 1, "quiet": True,
    "lr": 3e-3, "epochs": 1,
}  # fmt: skip


@settings(deadline=None)
@given(st.lists(st.booleans(), min_size=1, max_size=5), st.integers(0, 99))
def test_fresh_tokens_are_recomputed_and_replayed_ones_keep_theirs(replayed: list, seed: int):
    rng = np.random.default_rng(seed)
    played = [trajectory([2, 1], [0, 1], seed=i) for i in range(len(replayed))]
    first = rng.normal(size=3 * len(played)).astype(np.float32)
    before = with_recomputed(Batch.of(played), first)
    np.testing.assert_array_equal(before.logprobs, first)
    np.testing.assert_array_equal(before.sampler_logprobs, -np.ones_like(first))

    kept = [unpack(pack(t)) for t in played]  # as a checkpoint of a replay buffer does
    now = [replace(t, replayed=old) for t, old in zip(kept, replayed, strict=True)]
    second = rng.normal(size=len(first)).astype(np.float32)
    after = with_recomputed(Batch.of(now), second)
    old = np.repeat(replayed, 3)
    np.testing.assert_array_equal(after.logprobs, np.where(old, first, second))
    np.testing.assert_array_equal(after.fresh, ~old)


def test_a_replayed_episode_that_was_never_recomputed_keeps_what_was_recorded():
    batch = Batch.of([replace(trajectory([2], [1]), replayed=True)])
    np.testing.assert_array_equal(
        with_recomputed(batch, np.zeros(2, np.float32)).logprobs, [-1, -1]
    )
    assert logprob_gap(batch, np.zeros(2, np.float32), 0) == 0


@pytest.mark.parametrize("recipe", ["spear", "arpo_replay"])
def test_replayed_episodes_have_the_ratio_to_the_policy_that_played_them(
    recipe: str, tmp_path: Path, monkeypatch
):
    """In low precision, where log-probabilities are recomputed."""
    seen: list[tuple[Batch, np.ndarray]] = []
    update = Updater.update

    def watched(self, batch, credit, forward, *rest, **options):
        seen.append((batch, forward.logprobs))
        return update(self, batch, credit, forward, *rest, **options)

    monkeypatch.setattr(Updater, "update", watched)
    hard = FEW | {"env_kwargs": {"size": 6, "max_turns": 2}, "group_size": 2, "train_tasks": 6}
    train(recipe, **hard, iterations=3, dtype="bfloat16", run_dir=str(tmp_path))

    played: dict[int, np.ndarray] = {}  # by the identity of a turn, from its own iteration
    moved = 0.0
    for batch, now in seen:
        owners = batch.turn_trajectory
        for m, turn in enumerate(batch.turns):
            span = slice(batch.token_offsets[m], batch.token_offsets[m + 1])
            if not batch.trajectories[owners[m]].replayed:
                played[id(turn)] = batch.logprobs[span]
                np.testing.assert_array_equal(batch.logprobs[span], now[span])
            elif id(turn) in played:
                np.testing.assert_array_equal(batch.logprobs[span], played[id(turn)])
                moved = max(moved, float(np.abs(batch.logprobs[span] - now[span]).max()))
    assert moved > 0.1


@settings(deadline=None)
@given(st.lists(st.floats(-3, 3), min_size=1, max_size=6), st.floats(0.1, 10))
def test_importance_weights_are_truncated_ratios(gaps: list[float], cap: float):
    weights = importance_weights(torch.tensor(gaps), cap)
    np.testing.assert_allclose(weights, np.minimum(np.exp(gaps), cap), rtol=1e-4)


@pytest.mark.usefixtures("another_engine")
def test_a_single_step_recomputes_log_probabilities_in_its_own_pass(tmp_path: Path, monkeypatch):
    """A run whose update is one step equals one with a forward pass before the update."""
    passes: list[bool] = []
    evaluate = Updater.evaluate_actions

    def watched(self, *args, **kwargs):
        passes.append(True)
        return evaluate(self, *args, **kwargs)

    monkeypatch.setattr(Updater, "evaluate_actions", watched)
    one = FEW | {"iterations": 2, "minibatches": 1, "importance_cap": 2.0, "log_with": ()}
    rows = []
    for name, changes in {"own": {}, "before": {"check_logprobs": 1.0}}.items():
        train("grpo", **one | changes, run_dir=str(tmp_path / name))
        assert len(passes) == (0 if name == "own" else 2)
        rows.append(read_metrics(tmp_path / name)[-1])
    own, before = rows
    losses = [key for key in before if key.startswith("losses/")]
    assert "losses/importance_weight" in losses
    for key in losses:
        assert own[key] == pytest.approx(before[key], rel=1e-3, abs=1e-6), key


@pytest.fixture
def another_engine(monkeypatch) -> None:
    """Generation reports log-probabilities that are 0.5 nats too low, and 0 where forced."""
    act = Policy.act

    def wrong(self, requests, sampling, cache=None):
        samples = act(self, requests, sampling, cache)
        return [replace(s, logprobs=s.logprobs - 0.5 * (s.logprobs != 0)) for s in samples]

    monkeypatch.setattr(Policy, "act", wrong)


@pytest.mark.usefixtures("another_engine")
def test_a_gap_above_the_bound_stops_the_run(tmp_path: Path):
    with pytest.raises(Diverged, match=r"differ by up to 0\.5 nats.*check_logprobs = 0\.1"):
        train("grpo", **FEW, iterations=1, check_logprobs=0.1, run_dir=str(tmp_path / "low"))
    train("grpo", **FEW, iterations=1, check_logprobs=0.6, run_dir=str(tmp_path / "high"))
    gap = read_metrics(tmp_path / "high")[-1]["rollout/logprob_gap"]
    assert gap == pytest.approx(0.5, abs=0.01)


@pytest.mark.usefixtures("another_engine")
def test_the_share_of_truncated_weights_is_logged_and_ratios_start_at_one(tmp_path: Path):
    one: dict[str, Any] = {"iterations": 1, "minibatches": 1}
    for cap, weight, clipped in ((2.0, math.exp(0.5), 0.0), (1.25, 1.25, 1.0)):
        folder = str(tmp_path / str(cap))
        train("grpo", **{**FEW, **one}, importance_cap=cap, run_dir=folder)
        row = read_metrics(tmp_path / str(cap))[-1]
        assert row["losses/importance_weight"] == pytest.approx(weight, rel=1e-3)
        assert row["losses/importance_clipped"] == clipped
        assert row["losses/kl"] < 1e-9  # the ratio of PPO is that of the trainer's own numbers


def test_an_engine_that_agrees_passes_a_tight_bound(tmp_path: Path):
    train("grpo", **FEW, iterations=1, check_logprobs=1e-4, run_dir=str(tmp_path))
    assert 0 <= read_metrics(tmp_path)[-1]["rollout/logprob_gap"] < 1e-4


@pytest.mark.slow
@pytest.mark.usefixtures("other_precision")
def test_rewards_of_istar_come_from_the_forward_pass_of_training(tmp_path: Path, monkeypatch):
    """With an equal model, log-ratios are 0. Those to the sampler under autocast are not."""
    from agentgym.trainers.recipes import istar

    found: list[tuple[Batch, Batch]] = []
    rewards = istar.implicit_process_rewards

    def watched(batch, logprobs, **options):
        found.append((batch, rewards(batch, logprobs, **options)))
        return found[-1][1]

    monkeypatch.setattr(istar, "implicit_process_rewards", watched)
    own = FEW | {"mixed_precision": "bf16", "constrain": False, "context": "full"}
    train("istar", **own, max_new_tokens=4, model_lr=0.0, iterations=1, run_dir=str(tmp_path))
    [(batch, rewarded)] = found
    assert batch.sampler_logprobs is not None
    assert np.abs(batch.logprobs - batch.sampler_logprobs).max() > 1e-3
    np.testing.assert_allclose(rewarded.rewards, 0.0, atol=1e-6)


@pytest.mark.usefixtures("another_engine")
@pytest.mark.parametrize("importance", ["token_mask", "trajectory_mask"])
def test_tokens_beyond_the_cap_take_no_step_if_all_are(importance: str, tmp_path: Path):
    one: dict[str, Any] = {"iterations": 1, "importance": importance, "ratio": "token"}
    train("grpo", **FEW | one, importance_cap=1.25, run_dir=str(tmp_path))
    row = read_metrics(tmp_path)[-1]
    assert row["losses/masked"] == 1 and row["losses/steps"] == 0
