"""Pairs of a good action and a worse one that a language model writes."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentgym.errors import ConfigError
from agentgym.trainers import make_trainer
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.hooks.adversary import AdversarialPairs
from agentgym.trainers.recipes import dpo
from agentgym.trainers.rollout.episode import EpisodeSpec
from agentgym.trainers.trainer import Trainer

from ...helpers.chat_server import Messages, chat_server
from ..recipes.test_recipes import train

SETTINGS: dict[str, Any] = {
    "env_id": "NumberLine-v0", "env_kwargs": {"size": 6, "max_turns": 8}, "model": "nano",
    "context": "current", "instructions": False, "constrain": True, "group_size": 8,
    "episodes_per_iteration": 32, "eval_episodes": 0, "device": "cpu", "threads": 1,
    "quiet": True, "log_with": (),
}  # fmt: skip


def opposite(messages: Messages) -> str:
    """The other direction, or nothing where the observation has a 3."""
    text = messages[-1]["content"]
    assert "Admissible actions: +, -" in text or "Admissible actions: -, +" in text
    return "I do not know." if "at 3" in text else "-+"[text.endswith("-")]


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))
    with chat_server(opposite) as server:
        yield f"chat:m@{server.url}"


def played(trainer: Trainer) -> list[Trajectory]:
    return trainer.play([EpisodeSpec(f"train/{i // 8}", i // 8, (0, i)) for i in range(64)])


def test_each_preferred_episode_has_a_pair_of_actions(source: str, tmp_path: Path):
    config = dpo.Config.of(**SETTINGS, adversary=source, iterations=0, run_dir=str(tmp_path))
    trainer = Trainer("dpo", config, dpo.build(config))
    trainer.run()
    hooks, fresh = trainer.hooks, played(trainer)
    assert isinstance(hooks, AdversarialPairs)
    learn = hooks.on_rollout_end(fresh, 0, np.random.default_rng(0))
    assert learn.pairs is not None
    plain = hooks.pairs.on_rollout_end(fresh, 0, np.random.default_rng(0)).pairs
    assert plain is not None and [*learn.pairs[: len(plain)]] == [*plain]
    added = learn.pairs[len(plain) :]
    preferred = {pair.better for pair in plain}
    assert 4 < len(added) <= len(preferred) and hooks.metrics["adversarial_pairs"] == len(added)
    for pair in added:
        better, worse = (learn.trajectories[i] for i in (pair.better, pair.worse))
        [good], [bad] = better.turns, worse.turns
        assert {good.action, bad.action} == {"+", "-"}
        assert good.observation == bad.observation and "at 3" not in good.observation
        assert bad.support is not None and len(bad.support) == bad.stop - bad.start
        origin = [each for each in fresh if each.group == better.group]
        assert any(turn.action == good.action for each in origin for turn in each.turns)
    again = hooks.on_rollout_end(fresh, 0, np.random.default_rng(0))
    assert again.pairs == learn.pairs


def test_the_same_action_in_other_words_and_an_invalid_turn_make_no_pair(
    source: str, tmp_path: Path
):
    config = dpo.Config.of(**SETTINGS, adversary=source, iterations=0, run_dir=str(tmp_path))
    trainer = Trainer("dpo", config, dpo.build(config))
    trainer.run()
    hooks, fresh = trainer.hooks, played(trainer)
    assert isinstance(hooks, AdversarialPairs)
    hooks.write = lambda texts: [text[-1] for text in texts]  # type: ignore[assignment]
    for each in fresh:
        for turn in each.turns:
            turn.action = f"Action: {turn.action}"
    rng = np.random.default_rng(0)
    hooks.on_rollout_end(fresh, 0, rng)
    assert hooks.pairs.on_rollout_end(fresh, 0, rng).pairs
    assert hooks.metrics["adversarial_pairs"] == 0
    hooks.write = lambda texts: ["-+"[text.endswith("-")] for text in texts]  # type: ignore[assignment]
    hooks.on_rollout_end(fresh, 0, rng)
    assert hooks.metrics["adversarial_pairs"] > 0
    for each in fresh:
        for turn in each.turns:
            turn.action = f"<think>\n- or +?\n</think>\n{turn.action[-1]}"
    config.rollout.constrain = False
    *_, one, other = hooks.on_rollout_end(fresh, 0, rng).trajectories
    assert hooks.metrics["adversarial_pairs"] > 0
    both = {turn.action for each in (one, other) for turn in each.turns}
    assert both == {f"<think>\n- or +?\n</think>\n{action}" for action in "+-"}
    for each in fresh:
        for turn in each.turns:
            turn.valid = False
    hooks.on_rollout_end(fresh, 0, rng)
    assert hooks.metrics["adversarial_pairs"] == 0


@pytest.mark.parametrize("normalization", ["none", "sum"])
def test_a_run_learns_from_the_pairs(source: str, tmp_path: Path, normalization: str):
    few: dict[str, Any] = {
        "episodes_per_iteration": 32, "iterations": 1, "eval_episodes": 0, "group_size": 8,
        "bc_epochs": 2,
    }  # fmt: skip
    if normalization != "none":
        few["normalization"] = normalization
    run = partial(train, "dpo", **few)
    with_it, without = run(tmp_path / "a", adversary=source)[-1], run(tmp_path / "b")[-1]
    assert with_it["credit/adversarial_pairs"] > 0
    assert "credit/adversarial_pairs" not in without


def test_what_is_not_a_model_is_refused(tmp_path: Path):
    with pytest.raises(ConfigError):
        dpo.Config.of(adversary="someone")
    with pytest.raises(ConfigError, match=r"max_staleness|sampled"):
        make_trainer(
            "dpo", **SETTINGS, adversary="policy:nowhere", max_staleness=1, run_dir=str(tmp_path)
        )
