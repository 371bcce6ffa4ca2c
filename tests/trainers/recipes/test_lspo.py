"""LSPO: branches of a state, soft preferences and resuming."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.errors import ConfigError
from agentgym.trainers.api import make_trainer
from agentgym.trainers.credit.given import preference_weights
from agentgym.trainers.data.learn import Pair
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.policy.tiny import tiny_policy
from agentgym.trainers.recipes import lspo
from agentgym.trainers.run.logger import read_metrics

SMALL: dict[str, Any] = {
    "env_id": "KuhnPoker-v0", "env_kwargs": {"hands": 1}, "opponents": "mirror",
    "context": "current", "instructions": False, "constrain": True, "iterations": 2,
    "episodes_per_iteration": 8, "num_envs": 16, "minibatches": 1, "lr": 1e-3,
    "candidates": 3, "eval_episodes": 0, "device": "cpu", "threads": 1, "quiet": True,
    "log_with": (),
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = str(tmp_path_factory.mktemp("model"))
    tiny_policy("KuhnPoker-v0", size="nano", folder=Path(folder), episodes=8)
    SMALL["model"] = folder
    return folder


def test_a_state_of_each_episode_is_branched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    trainer = make_trainer("lspo", run_dir=str(tmp_path), **SMALL)
    trainer.make_hooks()
    hooks = trainer.hooks
    assert isinstance(hooks, lspo.LatentActions)
    fresh = trainer.rollouts.collect(0)
    strategies: dict[int, float] = {}
    strategy = hooks._strategy

    def watched(name: str, some: Sequence[Trajectory], rng: np.random.Generator) -> np.ndarray:
        found = strategy(name, some, rng)
        strategies.update(zip(map(id, some), found.tolist(), strict=True))
        return found

    monkeypatch.setattr(hooks, "_strategy", watched)
    found = hooks.on_rollout_end(fresh, 0, np.random.default_rng(0))
    outputs, pairs = found.trajectories, found.pairs
    trainer.folder.close()
    assert len(outputs) == 8 * 3  # one agent acts at a time in poker
    for state in range(8):
        members = outputs[3 * state : 3 * state + 3]
        prompts = {m.segments[0].tokens[: m.turns[0].start].tobytes() for m in members}
        assert len(prompts) == 1 and len({m.agent for m in members}) == 1
    assert pairs
    p = np.array([strategies[id(each)] for each in outputs])
    for a, b, label, _ in pairs:
        assert a // 3 == b // 3 and outputs[a].turns[0].action != outputs[b].turns[0].action
        assert label == pytest.approx(p[a] / (p[a] + p[b]) if p[a] + p[b] else 0.5)
    assert trainer.rollouts.turns >= sum(len(each.turns) for each in fresh) + 2 * 8


@settings(deadline=None, max_examples=25)
@given(st.lists(st.floats(0, 1), min_size=3, max_size=3), st.integers(0, 99))
def test_soft_labels_weigh_both_directions_of_a_preference(labels: list[float], seed: int):
    pairs, beta = [(0, 1), (1, 2), (0, 3)], 0.7
    scores = torch.tensor(np.random.default_rng(seed).normal(size=4), requires_grad=True)
    target = torch.tensor(labels, dtype=torch.float64)
    margin = torch.stack([beta * (scores[a] - scores[b]) for a, b in pairs])
    sigmoid = torch.nn.functional.logsigmoid
    loss = -(target * sigmoid(margin) + (1 - target) * sigmoid(-margin)).mean()
    loss.backward()
    assert scores.grad is not None
    soft = [Pair(*pair, label) for pair, label in zip(pairs, labels, strict=True)]
    weights, _ = preference_weights(scores.detach().numpy(), soft, beta)
    np.testing.assert_allclose(weights, -scores.grad.numpy(), atol=1e-12)


def test_latent_games_grow_and_a_run_resumes_exactly(tmp_path: Path):
    def run(folder: Path, **changes: Any) -> tuple[lspo.LatentActions, list[dict[str, Any]]]:
        chosen = SMALL | changes
        trainer = make_trainer("lspo", run_dir=str(folder), expand_every=2, **chosen)
        trainer.run()
        assert isinstance(trainer.hooks, lspo.LatentActions)
        rows = read_metrics(folder)
        return trainer.hooks, [{k: v for k, v in r.items() if "time/" not in k} for r in rows]

    hooks, whole = run(tmp_path / "a", iterations=3)
    run(tmp_path / "b", iterations=1)
    again, resumed = run(tmp_path / "b", iterations=3, resume=True)
    assert resumed == whole and again.state_dict() == hooks.state_dict()
    assert {game.latents.size for game in hooks.abstract.values()} == {5}  # 4, and 1 more after 2
    assert all(game.updates == 1 for game in hooks.abstract.values())


def first_letters(texts: list[str]) -> np.ndarray:
    """An encoder that knows the first letter of a text alone."""
    return np.array([[float(ord(text[0]) - 60), 1.0] for text in texts])


def no_vectors(texts: list[str]) -> np.ndarray:
    return np.zeros(len(texts))


def test_actions_are_clustered_by_the_vectors_of_an_encoder(tmp_path: Path):
    def grown(**changes: Any) -> dict[str, Any]:
        chosen: dict[str, Any] = SMALL | {"iterations": 1, "encoder": f"{__name__}:first_letters"}
        trainer = make_trainer("lspo", run_dir=str(tmp_path), **chosen | changes)
        trainer.run()
        assert isinstance(trainer.hooks, lspo.LatentActions)
        assert all(g.latents.centres.shape[1] == 2 for g in trainer.hooks.abstract.values())
        return trainer.hooks.state_dict()

    first = grown()
    assert first != grown(iterations=2, resume=True)
    chosen: dict[str, Any] = SMALL | {"encoder": f"{__name__}:no_vectors"}
    with pytest.raises(ConfigError, match=r"no_vectors' must map \d+ texts to finite numbers"):
        make_trainer("lspo", run_dir=str(tmp_path / "bad"), **chosen).run()
    for name in ("words2", "nowhere:f"):
        with pytest.raises(ConfigError, match=f"encoder must name a module:function, got '{name}'"):
            lspo.Config.of(encoder=name)


def test_a_role_that_acts_in_no_branched_state_needs_no_vectors(tmp_path: Path):
    few = {"episodes_per_iteration": 1, "encoder": f"{__name__}:first_letters"}
    trainer = make_trainer("lspo", run_dir=str(tmp_path), **SMALL | few)
    trainer.run()
    assert isinstance(trainer.hooks, lspo.LatentActions)
    names = {f"AgentGym/KuhnPoker-v0 player_{i}" for i in (0, 1)}  # one of them acts in a state
    assert {*trainer.hooks.abstract} == names


def test_games_of_a_mixture_are_solved_apart(tmp_path: Path):
    """Their roles have the same names."""
    games = ("KuhnPoker-v0:hands=1", "KuhnPoker-v0:hands=2")
    few: dict[str, Any] = {"env_id": games, "env_kwargs": {}, "iterations": 1}
    trainer = make_trainer("lspo", run_dir=str(tmp_path), **SMALL | few)
    trainer.run()
    assert isinstance(trainer.hooks, lspo.LatentActions)
    names = {f"AgentGym/{game} player_{i}" for game in games for i in (0, 1)}
    assert {*trainer.hooks.abstract} == names


@pytest.mark.slow
def test_lspo_plays_werewolf_from_lists(tmp_path: Path):
    """Every role that has acted has a game of latent actions, and its preferences are learned."""
    folder = tmp_path / "model"
    tiny_policy("Werewolf-Menu-v0", size="nano", folder=folder, episodes=2)
    changes: dict[str, Any] = {
        "env_id": "Werewolf-Menu-v0", "env_kwargs": {}, "model": str(folder), "candidates": 2,
        "episodes_per_iteration": 2, "iterations": 2, "num_envs": 2,
    }  # fmt: skip
    trainer = make_trainer("lspo", run_dir=str(tmp_path / "run"), **SMALL | changes)
    trainer.run()
    assert isinstance(trainer.hooks, lspo.LatentActions)
    rows = read_metrics(tmp_path / "run")
    assert len(rows) == 2 and "AgentGym/Werewolf-Menu-v0 villager" in trainer.hooks.abstract
    assert all(1 <= len(game.latents.centres) <= 4 for game in trainer.hooks.abstract.values())
    assert sum(row["credit/pairs"] for row in rows) > 0


def test_lspo_needs_the_policy_in_all_seats(tmp_path: Path):
    chosen: dict[str, Any] = SMALL | {"opponents": "past:2"}
    with pytest.raises(ConfigError, match="lspo repeats episodes up to a turn"):
        make_trainer("lspo", run_dir=str(tmp_path), **chosen)
