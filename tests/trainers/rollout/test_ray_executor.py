"""Episodes on Ray workers, on a cluster of two nodes on this machine (`make test-ray`)."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from agentgym.errors import ConfigError
from agentgym.trainers import Callback, Trainer, make_trainer
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.hooks.run import Run
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.run.logger import read_metrics
from agentgym.trainers.update.mismatch import staleness
from agentgym.wrappers.reward_function import Transition

ray = pytest.importorskip("ray", reason="run with `make test-ray`")

FEW: dict[str, Any] = {
    "env_id": "NumberLine-v0", "env_kwargs": {"size": 6, "max_turns": 8}, "model": "nano",
    "context": "current", "instructions": False, "constrain": True, "eval_episodes": 0,
    "episodes_per_iteration": 16, "group_size": 4, "device": "cpu", "threads": 1, "quiet": True,
    "lr": 3e-3, "epochs": 1, "iterations": 3, "num_envs": 16,
}  # fmt: skip


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two nodes with one core each."""
    node = {"num_cpus": 1, "object_store_memory": 100 << 20}
    from ray.cluster_utils import Cluster  # pyright: ignore[reportMissingImports]

    found = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    found.add_node(**node)
    found.connect()
    yield found
    ray.shutdown()
    found.shutdown()


class Kept(Callback):
    """Keeps the episodes of every iteration, and the policy that it began with."""

    def __init__(self) -> None:
        self.episodes: list[list[Trajectory]] = []
        self.policies: list[Policy] = []

    def on_iteration_start(self, trainer: Run) -> None:
        self.policies.append(trainer.policy.clone())

    def on_rollout_end(self, trainer: Run, trajectories: Sequence[Trajectory]) -> None:
        self.episodes.append(list(trajectories))


def deadly(armed: Path, steps: int) -> Callable[[Transition], float]:
    """A reward function that kills a worker in one of its later steps, once."""
    count: list[int] = []
    learner = os.getpid()

    def reward(transition: Transition) -> float:
        count.append(1)
        if os.getpid() != learner and len(count) >= steps and armed.exists():
            with suppress(FileNotFoundError):  # another worker was faster
                armed.unlink()
                os.kill(os.getpid(), signal.SIGKILL)
        return transition.reward

    return reward


def run(folder: Path, reward: Callable[[Transition], float], **more: Any) -> tuple[Trainer, Kept]:
    kept = Kept()
    settings = FEW | more
    trainer = make_trainer("grpo", **settings, reward=reward, run_dir=str(folder), callbacks=[kept])
    trainer.run()
    return trainer, kept


def test_a_killed_worker_changes_nothing_in_a_synchronous_run(cluster: Any, tmp_path: Path):
    armed = tmp_path / "armed"
    armed.touch()
    alone, played = run(tmp_path / "alone", deadly(armed, 30))
    with_ray, again = run(tmp_path / "ray", deadly(armed, 30), rollout_workers=1)
    assert not armed.exists()
    for expected, found in zip(played.episodes, again.episodes, strict=True):
        for a, b in zip(expected, found, strict=True):
            assert (a.task, a.seed, a.group) == (b.task, b.seed, b.group)
            assert [t.action for t in a.turns] == [t.action for t in b.turns]
            for s, t in zip(a.turns, b.turns, strict=True):
                assert s.logprobs.tobytes() == t.logprobs.tobytes()
                assert s.version == t.version
    weights = with_ray.policy.state_dict()
    for name, tensor in alone.policy.state_dict().items():
        assert torch.equal(tensor, weights[name]), name
    rows = read_metrics(tmp_path / "ray")
    assert rows[-1]["rollout/worker_restarts"] == 1
    assert rows[-1]["rollout/staleness_max"] == 0


@pytest.mark.parametrize("continuous", [False, True])
def test_workers_on_two_nodes_play_ahead_within_the_bound(
    cluster: Any, tmp_path: Path, continuous: bool
):
    armed = tmp_path / "armed"
    armed.touch()
    more: dict[str, Any] = {"rollout_workers": 2, "max_staleness": 1, "iterations": 4}
    more |= {"continuous_batching": continuous}
    trainer, kept = run(tmp_path / "run", deadly(armed, 30), **more)
    assert not armed.exists()
    assert trainer.state.episodes == 4 * 16
    for iteration, episodes in enumerate(kept.episodes):
        specs = trainer.rollouts.episodes(iteration)
        assert [(e.task, e.seed) for e in specs] == [(t.task, t.seed) for t in episodes]
        batch = Batch.of(episodes)
        ages = staleness(batch, iteration)
        assert set(ages.tolist()) <= {0, 1}
        for age in (0, 1) if iteration else (0,):  # the recorded version is the one that sampled
            trainer.policy.load_own_weights(kept.policies[iteration - age].own_weights())
            scored = trainer.updater.evaluate_actions(batch, reference=False).logprobs
            assert scored is not None
            same = ages == age
            np.testing.assert_allclose(batch.logprobs[same], scored[same], atol=1e-5)
    rows = read_metrics(tmp_path / "run")
    assert max(row["rollout/staleness_max"] for row in rows) == 1
    assert rows[-1]["rollout/worker_restarts"] == 1


def test_a_cluster_that_is_too_small_is_refused(cluster: Any, tmp_path: Path):
    with pytest.raises(ConfigError, match="need 3 CPUs, and the Ray cluster has 2"):
        make_trainer("grpo", **FEW, rollout_workers=3, run_dir=str(tmp_path))
