"""Executors: where and when the episodes of an iteration are played."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from agentgym.errors import ConfigError, MissingExtraError
from agentgym.trainers import recipes, train
from agentgym.trainers.api import make_trainer
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.policy_agent.agent import make_context
from agentgym.trainers.recipes import grpo
from agentgym.trainers.rollout.episode import EpisodeSpec
from agentgym.trainers.rollout.executor import LocalExecutor
from agentgym.trainers.rollout.ray_executor import Weights
from agentgym.trainers.run import checks, rollouts
from agentgym.trainers.run.logger import read_metrics
from agentgym.trainers.run.workers import WorkerSetup
from agentgym.trainers.update.mismatch import logprob_gap, staleness, staleness_metrics

from ...helpers.worlds import trajectory

FEW: dict[str, Any] = {
    "env_id": "NumberLine-v0", "env_kwargs": {"size": 6, "max_turns": 8}, "model": "nano",
    "context": "current", "instructions": False, "constrain": True, "eval_episodes": 0,
    "episodes_per_iteration": 16, "group_size": 4, "device": "cpu", "threads": 1, "quiet": True,
    "lr": 3e-3, "epochs": 1, "iterations": 4, "log_with": (),
}  # fmt: skip


class PlaysAtOnce(LocalExecutor):
    """Plays when episodes are started: they are as stale as the bound allows."""

    def start(self, episodes: Sequence[EpisodeSpec]) -> Callable[[], list[list[Trajectory]]]:
        played = self.play(episodes)
        return lambda: played


@pytest.fixture
def plays_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def make(config: Any, policy: Any, pool: Any, **rest: Any) -> LocalExecutor:
        context = make_context(policy, config.context_settings())
        callbacks = {name: rest[name] for name in ("on_progress", "on_episode")}
        constrain = config.rollout.constrain
        return PlaysAtOnce(policy, pool, context, config.sampling(), constrain, **callbacks)

    monkeypatch.setattr(rollouts, "make_executor", make)
    monkeypatch.setattr(checks, "find_spec", lambda package: True)  # without Ray


@pytest.mark.slow
@pytest.mark.parametrize("bound", [0, 2])
@pytest.mark.usefixtures("plays_at_once")
def test_episodes_are_at_most_as_stale_as_the_bound(bound: int, tmp_path: Path):
    train("grpo", **FEW, rollout_workers=1, max_staleness=bound, run_dir=str(tmp_path))
    rows = read_metrics(tmp_path)
    expected = [min(i, bound) for i in range(4)]
    assert [row["rollout/staleness_max"] for row in rows] == expected
    assert [row["rollout/staleness_mean"] for row in rows] == expected
    assert [row["rollout/stale_tokens"] for row in rows] == [float(i > 0) for i in expected]
    assert [row["episodes"] for row in rows] == [16, 32, 48, 64]
    weights: list[Any] = [row.get("losses/importance_weight") for row in rows]
    if bound:
        assert weights[0] == pytest.approx(1.0, abs=1e-5)
        assert abs(weights[2] - 1.0) > 1e-3
        assert all("losses/importance_clipped" in row for row in rows)
    else:
        assert weights == [None] * 4


@pytest.mark.slow
@pytest.mark.usefixtures("plays_at_once")
def test_a_bound_of_0_trains_as_one_process_does(tmp_path: Path):
    found = []
    for workers in (0, 1):
        settings: dict[str, Any] = FEW | {"iterations": 2, "rollout_workers": workers}
        trainer = make_trainer("grpo", **settings, run_dir=f"{tmp_path}/{workers}")
        trainer.run()
        found.append(trainer.policy.state_dict())
    assert all(torch.equal(found[0][name], found[1][name]) for name in found[0])


@pytest.mark.slow
@pytest.mark.usefixtures("plays_at_once")
def test_a_resumed_run_stays_within_the_bound(tmp_path: Path):
    for iterations in (2, 4):
        settings: dict[str, Any] = FEW | {"iterations": iterations, "run_dir": str(tmp_path)}
        train("grpo", **settings, rollout_workers=1, max_staleness=1, resume=True)
    rows = read_metrics(tmp_path)
    assert [row["episodes"] for row in rows] == [16, 32, 48, 64]
    assert [row["rollout/staleness_max"] for row in rows] == [0, 1, 0, 1]


@pytest.mark.slow
@pytest.mark.usefixtures("plays_at_once")
def test_stale_tokens_have_the_decoupled_objective(tmp_path: Path, monkeypatch: Any):
    """Ratios start at 1, and the weights are those of the policy before the update."""
    seen: list[Batch] = []
    trainer = make_trainer("grpo", **FEW, rollout_workers=1, max_staleness=1, run_dir=str(tmp_path))
    update = trainer.updater.update

    def kept(batch: Batch, *args: Any, **options: Any) -> dict[str, float]:
        forward = trainer.updater.evaluate_actions(batch, reference=False)
        np.testing.assert_array_equal(batch.logprobs, forward.logprobs)  # the proximal policy
        seen.append(batch)
        return update(batch, *args, **options)

    monkeypatch.setattr(trainer.updater, "update", kept)
    trainer.run()
    recorded = [np.concatenate([t.logprobs for t in batch.turns]) for batch in seen]
    for batch, sampled in zip(seen, recorded, strict=True):
        assert batch.sampler_logprobs is not None
        np.testing.assert_array_equal(batch.sampler_logprobs, sampled)
    assert np.abs(seen[1].logprobs - recorded[1]).max() > 1e-2
    assert trainer.config.loss.importance_cap == 5.0


@pytest.mark.slow
@pytest.mark.usefixtures("plays_at_once")
def test_branches_keep_the_versions_of_their_opening(tmp_path: Path):
    settings: dict[str, Any] = FEW | {"iterations": 3, "lr": 0.0}
    trainer = make_trainer(
        "arpo_entropy", **settings, rollout_workers=1, max_staleness=1, run_dir=str(tmp_path)
    )
    played: list[list[Trajectory]] = []
    play = trainer.play

    def noted(episodes: Sequence[EpisodeSpec]) -> list[Trajectory]:
        played.append(play(episodes))
        for spec, found in zip(episodes, played[-1], strict=True):
            versions = [turn.version for turn in found.turns]
            opened = len(spec.opening)
            assert versions[:opened] == [sample.version for sample in spec.opening]
            assert set(versions[opened:]) <= {trainer.state.iteration}
        return played[-1]

    trainer.play = noted  # type: ignore[method-assign]
    trainer.run()
    branches = [trajectory for wave in played for trajectory in wave]
    assert len(branches) == trainer.hooks.metrics["branches"] * 3
    assert any(len({turn.version for turn in t.turns}) == 2 for t in branches)


VERSIONS = st.none() | st.integers(0, 5) | st.lists(st.integers(0, 5), min_size=2, max_size=2)


@given(st.lists(VERSIONS, min_size=1, max_size=6), st.booleans())
def test_staleness_of_tokens(versions: list[Any], replayed: bool):
    played = trajectory([2] * len(versions), [0.0] * len(versions))
    for turn, version in zip(played.turns, versions, strict=True):
        turn.version = version[-1] if isinstance(version, list) else version
        turn.token_versions = np.array(version, np.int32) if isinstance(version, list) else None
    played.replayed = replayed
    batch = Batch.of([played])
    tokens = [x for v in versions for x in (v if isinstance(v, list) else [v, v])]
    ages = [0 if version is None else 5 - version for version in tokens]
    assert staleness(batch, 5).tolist() == ages
    moved = batch.logprobs + np.array(ages, np.float32)
    assert logprob_gap(batch, moved, 5) == 0
    expected = {
        "staleness_mean": np.mean(ages),
        "staleness_max": max(ages),
        "stale_tokens": np.mean(np.array(ages) > 0),
    }
    assert staleness_metrics(batch, 5) == ({} if replayed else pytest.approx(expected))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_weights_are_published_exactly(make_policy: Any, dtype: str):
    source, target = (make_policy(seed=seed).to(getattr(torch, dtype)) for seed in (0, 1))
    source.version = 3
    Weights.of(source, 1).load_into(target)
    assert target.version == 3
    found = target.state_dict()
    assert all(torch.equal(t.float(), found[n].float()) for n, t in source.state_dict().items())


def test_only_the_adapter_is_published(make_model: Any, tokenizer: Any):
    from agentgym.trainers.policy.adapters import add_adapter
    from agentgym.trainers.policy.lora import LoraSettings
    from agentgym.trainers.policy.policy import Policy

    policy = Policy(add_adapter(make_model(), LoraSettings(4)), tokenizer)
    published = Weights.of(policy, 1)
    policy.freeze_reference()
    assert published.arrays.keys() == Weights.of(policy, 2).arrays.keys()
    assert published.arrays and all("lora_" in name for name in published.arrays)


def test_a_worker_plays_as_the_learner_does(tmp_path: Path):
    settings: dict[str, Any] = FEW | {"iterations": 0}
    trainer = make_trainer("grpo", **settings, run_dir=str(tmp_path))
    trainer.run()
    config = trainer.config.with_changes(rollout_workers=1)
    worker = WorkerSetup.of(config, None, None, trainer.policy)(lambda _: None)
    episodes = trainer.rollouts.episodes(0)
    for a, (b,) in zip(trainer.play(episodes), worker.play(episodes), strict=True):
        assert [t.logprobs.tobytes() for t in a.turns] == [t.logprobs.tobytes() for t in b.turns]


def test_staleness_needs_workers_and_episodes():
    with pytest.raises(ConfigError, match="set rollout_workers above 0"):
        grpo.Config.of(max_staleness=1)
    for recipe in ("bc", "eto", "ilql", "mc", "archer_iql"):
        with pytest.raises(ConfigError, match="has no max_staleness"):
            recipes.load(recipe).Config.of(max_staleness=1, rollout_workers=1)
    with pytest.raises(ConfigError, match="nlpo has no rollout_workers"):
        recipes.load("nlpo").Config.of(rollout_workers=1)
    changed = grpo.Config.of(max_staleness=1, rollout_workers=1)
    assert changed.loss.importance_cap == 5.0
    assert changed.with_changes(max_staleness=0).loss.importance_cap is None


def test_missing_ray_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"agentgym-suite\[ray\]"):
        make_trainer("grpo", **FEW, rollout_workers=1, run_dir=str(tmp_path))
