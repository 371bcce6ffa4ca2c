"""`--env-id A B --mix 2 1`: several environments in one run."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from agentgym.cli.main import main
from agentgym.envs.numbers.number_line import NumberLine
from agentgym.errors import ConfigError
from agentgym.trainers import train
from agentgym.trainers.cli.train import read_config
from agentgym.trainers.credit.normalize import normalize_advantages
from agentgym.trainers.data.batch import Batch, Credit
from agentgym.trainers.run.logger import read_metrics

from ...helpers.played import Played
from ...helpers.worlds import trajectory

SMALL: dict[str, Any] = {
    "model": "nano", "context": "current", "instructions": False, "constrain": True,
    "episodes_per_iteration": 12, "num_envs": 3, "eval_episodes": 9,
    "device": "cpu", "threads": 1, "log_with": (),
    "quiet": True,
}  # fmt: skip
SEVERAL: dict[str, Any] = {
    "env_id": ("NumberLine-v0", "AgentGym/FrozenLake-v0"), "mix": (2, 1),
    "env_kwargs": {"max_turns": 3}, "eval_env_id": ("TextNav-v0",),
    "normalize_advantages": "env",
}  # fmt: skip


def test_the_flag_takes_one_id_or_several():
    config = read_config("poad", ["--env-id", "A-v0", "B-v0", "--mix", "2", "1", "--lr", "1e-4"])
    assert config.environment.env_id == ("A-v0", "B-v0")
    assert (config.environment.ids, config.environment.label) == (("A-v0", "B-v0"), "A-v0+B-v0")
    one = read_config("poad", ["--env-id", "AgentGym/A-v0"])
    assert one.environment.env_id == "AgentGym/A-v0"
    assert (one.environment.ids, one.environment.label) == (("AgentGym/A-v0",), "A-v0")
    again = type(config).of(**json.loads(json.dumps(config.to_json())))
    assert again.environment.ids == config.environment.ids


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"env_id": ("A-v0", "A-v0")}, "different environments"),
        ({"env_id": ()}, "different environments"),
        ({"env_id": ("A-v0", "B-v0"), "mix": (1,)}, "mix needs"),
        ({"env_id": ("A-v0", "B-v0"), "mix": (1, 0)}, "mix needs"),
        ({"env_id": "A-v0", "eval_env_id": ("A-v0",)}, "different environments"),
        ({"eval_env_id": ("TextNaf-v0",)}, "Did you mean"),
        ({"env_id": "NumberLine-v0:size=4"}, "single environment are env_kwargs"),
        ({"env_id": ("TextNav-v0", "NumberLine-v0:size=[4, 5]")}, "have no spaces"),
        ({"env": NumberLine(), "eval_env_id": ("TextNav-v0",)}, "use env_id, not env"),
    ],
)
def test_wrong_combinations_are_explained(settings: Any, message: str, tmp_path: Path):
    with pytest.raises(ConfigError, match=message):
        train("poad", **SMALL | settings, run_dir=str(tmp_path / "run"))


@pytest.mark.slow
def test_a_run_plays_evaluates_and_resumes_all_environments(tmp_path: Path):
    whole, first, rest = Played(), Played(), Played()
    run = {**SMALL, **SEVERAL}
    reports = train("poad", **run, iterations=2, run_dir=str(tmp_path / "a"), callbacks=[whole])
    played = Counter(episode.env_id for episode in whole.episodes)
    assert played.keys() == {"AgentGym/NumberLine-v0", "AgentGym/FrozenLake-v0"}
    assert played["AgentGym/NumberLine-v0"] > played["AgentGym/FrozenLake-v0"]
    ids = ["NumberLine-v0", "AgentGym/FrozenLake-v0", "TextNav-v0"]
    assert [(report.env, report.agent) for report in reports] == [
        (id, agent) for id in ids for agent in ("start", "poad")
    ]
    assert sum(len(report.episodes) for report in reports) == 18
    assert [report.env_kwargs for report in reports[::2]] == [{"max_turns": 3}] * 2 + [{}]

    rows = [row for row in read_metrics(tmp_path / "a") if "eval/reward" in row]
    trained = [e.reward for report in reports[1:4:2] for e in report.episodes]
    assert rows[-1]["eval/reward"] == pytest.approx(np.mean(trained))
    heldout = reports[-1].aggregate()["reward"].mean
    assert rows[-1]["eval/TextNav-v0/reward"] == pytest.approx(heldout)
    rows = [row for row in read_metrics(tmp_path / "a") if "rollout/return" in row]
    last = [e for e in whole.episodes[12:] if e.env_id.endswith("FrozenLake-v0")]
    mean = np.mean([episode.episode_return for episode in last])
    assert rows[-1]["rollout/FrozenLake-v0/return"] == pytest.approx(mean)

    again = {**run, "eval_episodes": 0, "eval_env_id": (), "run_dir": str(tmp_path / "b")}
    train("poad", **again, iterations=1, callbacks=[first])
    train("poad", **again, iterations=2, callbacks=[rest], resume=True)
    pairs = zip(whole.episodes, first.episodes + rest.episodes, strict=True)
    for one, other in pairs:
        assert (one.env_id, one.task, one.seed) == (other.env_id, other.task, other.seed)
        assert [turn.action for turn in one.turns] == [turn.action for turn in other.turns]


def test_a_further_environment_of_evaluations_has_arguments_of_its_own(tmp_path: Path):
    settings = SMALL | {"env_kwargs": {"size": 4}, "eval_env_id": ("NumberLine-v0:size=9",)}
    settings |= {"eval_episodes": 8, "run_dir": str(tmp_path)}
    reports = train("poad", **settings, env_id="NumberLine-v0", iterations=0)
    found = [(report.env, report.env_kwargs, len(report.episodes)) for report in reports]
    assert found == [("NumberLine-v0", {"size": 4}, 4), ("NumberLine-v0:size=9", {}, 4)]
    [row] = read_metrics(tmp_path)
    assert "eval/NumberLine-v0:size=9/reward" in row


@pytest.mark.slow
def test_levels_of_one_environment_have_arguments_of_their_own(tmp_path: Path):
    ids = ("AgentGym/NumberLine-v0:size=2", "NumberLine-v0:size=5,invalid_penalty=0.5")
    settings = SMALL | {"env_id": ids, "env_kwargs": {"max_turns": 8, "size": 9}}
    settings |= {"curriculum": "levels", "run_dir": str(tmp_path / "run")}
    seen = Played()
    reports = train("poad", **settings, iterations=4, callbacks=[seen])
    easy, hard = (
        "AgentGym/NumberLine-v0:size=2",
        "AgentGym/NumberLine-v0:size=5,invalid_penalty=0.5",
    )
    played = [episode.env_id for episode in seen.episodes]
    assert set(played[:24]) == {easy} and set(played[24:]) == {easy, hard}
    assert all(episode.task.startswith(ids[0]) for episode in seen.episodes[:24])
    assert {report.env for report in reports} == set(ids)
    rows = read_metrics(tmp_path / "run")
    names = {key.split("/")[1] for row in rows for key in row if key.startswith("rollout/Number")}
    assert names == {name.removeprefix("AgentGym/") for name in (easy, hard)}
    saved = tmp_path / "run" / "trajectories.jsonl"
    assert main(["export", str(saved), "--out", str(tmp_path / "chat.jsonl")]) == 0


def test_a_role_has_a_baseline_for_each_game_of_a_mixture(tmp_path: Path):
    """Games that differ in their arguments alone are different games, also in the checkpoint."""
    games = ("KuhnPoker-v0:hands=1", "KuhnPoker-v0:hands=2")
    settings = SMALL | {"env_id": games, "opponents": "mirror", "eval_episodes": 0}
    seen = Played()
    train("rae", **settings, iterations=2, run_dir=str(tmp_path), callbacks=[seen])
    saved = torch.load(tmp_path / "checkpoints" / "000002" / "hooks.pt", weights_only=True)
    baselines = dict(saved["hooks"]["baselines"])
    rows = read_metrics(tmp_path)
    for game in games:
        for role in ("player_0", "player_1"):
            expected = 0.0
            for each in seen.episodes:
                if (each.env_id, each.role) == (f"AgentGym/{game}", role):
                    expected = 0.95 * expected + 0.05 * each.episode_return
            [key] = [key for key in baselines if game in key and role in key]
            assert baselines.pop(key) == pytest.approx(expected) != 0
            assert rows[-1][f"credit/baseline/{game}/{role}"] == pytest.approx(expected)
    assert not baselines


def test_advantages_are_standardised_in_each_environment():
    trajectories = [trajectory([2, 1], [0, 0]) for _ in range(6)]
    for number, each in enumerate(trajectories):
        each.env_id = "AB"[number % 2]
    batch = Batch.of(trajectories)
    scale = np.array([1, 100])[np.arange(6) % 2][batch.turn_trajectory][batch.token_turn]
    advantages = (np.random.default_rng(0).normal(size=18) * scale + scale).astype(np.float32)
    found = normalize_advantages(Credit(advantages), batch, "env").advantages
    for kind in (1, 100):
        assert found[scale == kind].mean() == pytest.approx(0, abs=1e-6)
        assert found[scale == kind].std() == pytest.approx(1, abs=1e-5)
