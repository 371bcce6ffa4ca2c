"""Training against mixtures of opponents, and against a pool of earlier policies."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from agentgym.agents import MixedAgent, make_agent
from agentgym.errors import CheckpointError, ConfigError
from agentgym.evaluation import nashconv
from agentgym.trainers import train
from agentgym.trainers.api import make_trainer
from agentgym.trainers.opponents import Opponent
from agentgym.trainers.policy.loading import LoraSettings
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.rollout.seats import OUTCOME, GamePlay
from agentgym.trainers.run.league import GAMES, League, Results, member_name, pfsp
from agentgym.trainers.run.payoffs import Payoffs
from agentgym.trainers.run.pool import Pool
from agentgym.trainers.trajectory import Trajectory

from .test_self_play import SMALL, Played, equal, model, quick, run

__all__ = ["model", "quick"]  # fixtures
PSRO: dict[str, Any] = {
    "opponents": ("psro:nash=0.75", "mirror=0.25"),
    "env_kwargs": {"hands": 1},
    "snapshot_every": 1,
    "payoff_deals": 3,
    "iterations": 3,
}


# Mixtures.


@pytest.mark.slow
def test_a_group_has_one_opponent_of_the_mixture(tmp_path: Path):
    played = Played()
    opponents = ("mirror=0.4", "past:2=0.3", "scripted:maniac=0.3")
    run(
        "rae", tmp_path, callbacks=[played], opponents=opponents, group_size=2,
        episodes_per_iteration=24, snapshot_every=1,
    )  # fmt: skip
    met: set[str] = set()
    for trajectories in played.trajectories:
        deals: dict[tuple[str, int], list[Trajectory]] = {}
        for trajectory in trajectories:
            deals.setdefault((trajectory.task, trajectory.seed), []).append(trajectory)
        for group in deals.values():
            [opponent] = {t.opponent for t in group}
            assert len(group) == (4 if opponent == "self" else 2)
            assert len({t.agent for t in group}) == (2 if opponent == "self" else 1)
            met.add(opponent)
    assert met == {"self", "maniac", "iteration 0", "iteration 1"}
    seats = [t.agent for ts in played.trajectories for t in ts if t.opponent != "self"]
    assert set(seats) == {"player_0", "player_1"}


def test_actions_do_not_depend_on_the_draw_of_the_opponent(tmp_path: Path):
    """A policy without preferences takes both actions in both seats, whoever the opponent is."""
    changes: dict[str, Any] = {
        "opponents": ("mirror=0.5", "past:1=0.5"), "env_kwargs": {"hands": 1}, "temperature": 1e4,
        "episodes_per_iteration": 64, "num_envs": 64,
    }  # fmt: skip
    trainer = make_trainer("rae", run_dir=str(tmp_path), **SMALL | changes)
    found = Counter(
        (each.opponent, each.agent, each.turns[0].action)
        for each in trainer.rollouts.collect(0)
        if each.turns[0].admissible == ("check", "bet")
    )
    for key in itertools.product(("self", "iteration 0"), ("player_0", "player_1")):
        assert found[*key, "check"] > 0 and found[*key, "bet"] > 0, key
    trainer.folder.close()


@pytest.mark.slow
def test_results_count_against_members_only(tmp_path: Path):
    played = Played()
    trainer, rows = run(
        "rae", tmp_path, callbacks=[played], opponents=("league", "scripted"), iterations=1, seed=1
    )
    [trajectories] = played.trajectories
    games = [t for t in trajectories if t.opponent == "iteration 0"]
    assert 0 < len(games) < len(trajectories)
    for trajectory in trajectories:
        outcome = trajectory.extras.get(OUTCOME)
        expected = 0.5 + 0.5 * np.sign(trajectory.episode_return)
        assert outcome == (expected if trajectory in games else None)
    results = Results()
    for trajectory in games:
        results.add(trajectory.extras[OUTCOME])
    assert rows[-1]["pool/win_rate/0"] == rows[-1]["pool/win_rate"] == results.rate
    assert rows[-1]["pool/members"] == 1
    assert (
        trainer.rollouts.players.league is not None
        and trainer.rollouts.players.league.members == [0]
    )


@pytest.mark.slow
def test_a_policy_of_another_run_plays_the_other_seats(tmp_path: Path):
    other, _ = run("rae", tmp_path / "other", iterations=1)
    folder = str(other.folder.latest())
    played = Played()
    opponents = f"policy:{folder}/policy"
    trainer, _ = run("rae", tmp_path / "run", callbacks=[played], opponents=opponents)
    assert {t.opponent for t in played.trajectories[-1]} == {opponents}
    assert not equal(trainer, other)
    [frozen] = trainer.rollouts.players._given.values()
    kept = frozen.state_dict()
    assert all(torch.equal(kept[name], value) for name, value in other.policy.state_dict().items())


def test_a_policy_that_does_not_fit_is_explained(tmp_path: Path, model: str):
    nowhere: dict[str, Any] = {"opponents": "policy:nowhere"}
    with pytest.raises(CheckpointError, match="holds no policy"):
        train("rae", run_dir=str(tmp_path / "a"), **SMALL | nowhere)
    other, _ = run("rae", tmp_path / "other", iterations=0)
    folder = other.folder.latest()
    assert folder is not None
    settings = folder / "policy" / "agentgym_policy.json"
    saved = json.loads(settings.read_text())
    faults: dict[str, Callable[[], Any]] = {
        "was trained in AgentGym/LeducPoker-v0": lambda: saved | {"env_id": "LeducPoker-v0"},
        r"acts through \['ExtractAction'\]": lambda: saved | {"wrap": ["ExtractAction"]},
        "has other prompts": lambda: saved | {"context": saved["context"] | {"mode": "full"}},
    }
    for number, (message, change) in enumerate(faults.items()):
        settings.write_text(json.dumps(change()))
        changes: dict[str, Any] = {"opponents": f"policy:{folder}/policy"}
        with pytest.raises(ConfigError, match=message):
            train("rae", run_dir=str(tmp_path / f"{number}"), **SMALL | changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"opponents": "scripted:tigh"}, "no level 'tigh'. Did you mean: tight"),
        ({"opponents": "chat:llama"}, "chat:MODEL@URL"),
        ({"opponents": "psro", "env_id": "StagHunt-v0", "env_kwargs": {}}, "psro:alpharank"),
        ({"opponents": "psro", "env_id": ("KuhnPoker-v0", "LeducPoker-v0")}, "one game"),
        ({"opponents": "psro", "wrap": ("ExtractAction",), "constrain": False}, "psro none: got 1"),
        ({"opponents": "league", "env_id": "NumberLine-v0", "env_kwargs": {}}, "has one agent"),
    ],
)
def test_opponents_that_do_not_fit_the_game_are_explained(changes: Any, message: str, tmp_path):
    with pytest.raises(ConfigError, match=message):
        train("rae", run_dir=str(tmp_path), **SMALL | changes)


# Members and their probabilities.


def test_pfsp_prefers_the_members_that_win():
    assert pfsp(np.array([0.5, 0.0, 1.0])) == pytest.approx([0.2, 0.8, 0.0])
    assert pfsp(np.ones(2)) == pytest.approx([0.5, 0.5])


def games(opponent: str, outcome: float, count: int) -> Any:
    return [SimpleNamespace(opponent=opponent, extras={OUTCOME: outcome})] * count


def test_a_policy_that_wins_at_the_rate_becomes_a_member():
    league = League(Opponent("winrate", "0.7"), every=1, payoffs=None)
    assert league.is_due(0)
    league.add(0)
    league.observe(games("iteration 0", 1.0, GAMES - 1))
    assert not league.is_due(1)  # too few games
    league.observe(games("iteration 0", 1.0, 1))
    assert league.is_due(2)
    league.add(2)
    assert not league.is_due(2) and not league.is_due(3)
    league.observe([*games("iteration 2", 1.0, GAMES), *games("iteration 0", 0.0, GAMES)])
    assert not league.is_due(4)
    league.choose()
    assert league.probabilities == {0: 0.5, 2: 0.5}


def test_members_depend_on_the_checkpoint_alone():
    league = League(Opponent("league"), every=2, payoffs=None)
    for iteration in range(5):
        if league.is_due(iteration):
            league.add(iteration)
        league.observe(games(f"iteration {iteration // 2 * 2}", 1.0, 1 + iteration))
    league.choose()
    assert league.members == [0, 2, 4] and league.probabilities[0] < 1 / 3 + 0.1
    restored = League(Opponent("league"), every=2, payoffs=None)
    restored.load_state_dict(json.loads(json.dumps(league.state_dict()), object_hook=_numbered))
    restored.choose()
    assert restored.probabilities == league.probabilities
    assert restored.metrics() == league.metrics()


def _numbered(value: dict[str, Any]) -> dict[Any, Any]:
    return {int(k) if k.isdecimal() else k: v for k, v in value.items()}


def test_members_that_no_checkpoint_needs_are_deleted(tmp_path: Path):
    policy: Any = SimpleNamespace(own_weights=lambda: {"weight": torch.zeros(1)})
    pool, league = Pool(tmp_path, policy), League(Opponent("past", "2"), 2, None)
    kept = []
    for iteration in range(7):
        if league.is_due(iteration):
            league.add(iteration)
            pool.add(iteration)
            pool.prune(league.oldest_needed(max(0, iteration - 1)))
        kept.append([int(folder.name) for folder in sorted((tmp_path / "pool").iterdir())])
        league.choose()
        assert set(league.probabilities) <= set(kept[-1])
    assert kept == [[0], [0], [0, 2], [0, 2], [0, 2, 4], [0, 2, 4], [2, 4, 6]]


def test_a_member_of_an_adapter_holds_the_adapter_alone(tmp_path: Path, model: str):
    policy = Policy.load(model, lora=LoraSettings(2, 4.0))
    pool = Pool(tmp_path, policy)
    pool.add(0)
    weights = torch.load(tmp_path / "pool" / "000000" / "weights.pt", weights_only=True)
    assert weights and all("lora_" in name for name in weights)
    member = pool.load([0])[0]
    mine = dict(policy.named_parameters())
    for name, parameter in member.named_parameters():
        assert (mine[name] is parameter) == ("lora_" not in name)


@pytest.mark.parametrize("fault", ["bit", "file", "folder"])
def test_a_damaged_member_is_named(fault: str, tmp_path: Path, model: str):
    policy = Policy.load(model)
    Pool(tmp_path, policy).add(10)
    file = tmp_path / "pool" / "000010" / "weights.pt"
    if fault == "bit":
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
    elif fault == "file":
        file.unlink()
    else:
        shutil.rmtree(file.parent)
    with pytest.raises(
        CheckpointError, match=r"000010 of the pool is damaged .*Restore the folder"
    ):
        Pool(tmp_path, policy).load([10])


# PSRO.


def payoffs(folder: Path, digests: dict[int, str], calls: list[Any]) -> Payoffs:
    def simulate(agents: Any) -> Any:
        calls.append(tuple(agents))
        gain = float(agents[-1] - agents[0])
        return SimpleNamespace(returns=lambda i, j: [gain * (j - i), gain * (j - i)])

    one: Any = SimpleNamespace(num_processes=1, process_index=0)
    agents: Any = list
    return Payoffs(folder, one, agents=agents, digest=digests.__getitem__, simulate=simulate)


def test_the_payoff_matrix_is_completed_once(tmp_path: Path):
    calls: list[Any] = []
    digests = {0: "a", 10: "b", 20: "c"}
    table = payoffs(tmp_path, digests, calls)
    assert table.matrix([0, 10]).tolist() == [[0, 10], [-10, 0]]
    assert calls == [(0,), (0, 10), (10,)]
    with (tmp_path / "payoffs.jsonl").open("a") as file:
        file.write('\n["a", "c", 3')  # half a line of a killed process
    again = payoffs(tmp_path, digests, calls := [])
    assert again.matrix([0, 10, 20]).tolist() == [[0, 10, 20], [-10, 0, 10], [-20, -10, 0]]
    assert calls == [(0, 20), (10, 20), (20,)]
    other = payoffs(tmp_path, digests | {20: "d"}, calls := [])  # other weights
    other.matrix([0, 10, 20])
    assert calls == [(0, 20), (10, 20), (20,)]


@pytest.mark.slow
def test_psro_meets_the_nash_mixture_and_its_average_policy_is_evaluated(tmp_path: Path):
    trainer, _ = run("rae", tmp_path, **PSRO)
    league = trainer.rollouts.players.league
    assert league is not None and league.members == [0, 1, 2, 3]
    weights = Pool(tmp_path, trainer.policy).read_mixture()
    assert weights == league.average() and sum(weights.values()) == pytest.approx(1)
    lines = (tmp_path / "pool" / "payoffs.jsonl").read_text().splitlines()[1:]
    pairs = [tuple(json.loads(line)[:2]) for line in lines]
    assert len({*pairs}) == len(pairs) == 10  # of four members, with themselves
    shutil.copytree(trainer.folder.latest() / "policy", tmp_path / "policy")  # type: ignore[operator]
    agent = make_agent(f"league:{tmp_path}", temperature=1.0)
    assert isinstance(agent, MixedAgent)
    shares = dict(zip((member.name for member in agent.members), agent.weights, strict=True))
    assert shares == pytest.approx({member_name(n): w for n, w in weights.items() if w > 0})
    found = nashconv("KuhnPoker-v0", agent, env_kwargs={"hands": 1})
    assert 0 < found.nashconv < 2 and found.agents[0] == "league of rae"


def killed(folder: Path, games: int, settings: dict[str, Any]) -> None:
    """Runs in a process that kills itself when some games are finished."""
    child = os.fork()
    if child == 0:
        left, original = games, GamePlay.trajectories

        def trajectories(game: GamePlay) -> list[Trajectory]:
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return original(game)

        GamePlay.trajectories = trajectories  # type: ignore[method-assign]
        try:
            run("rae", folder, **settings)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL


@pytest.mark.slow
@pytest.mark.parametrize("opponents", [PSRO["opponents"], ("league", "mirror")])
def test_a_league_that_is_killed_goes_on_as_if_nothing_had_happened(opponents: Any, tmp_path: Path):
    settings = PSRO | {"opponents": opponents, "resume": True, "save_every": 2}
    killed(tmp_path / "killed", 8 * 2 + 5, settings)
    resumed, rows = run("rae", tmp_path / "killed", **settings)
    whole, expected = run("rae", tmp_path / "whole", **settings)
    assert rows == expected and equal(resumed, whole)
    assert resumed.rollouts.players.state_dict() == whole.rollouts.players.state_dict()
    files = sorted((tmp_path / "whole" / "pool").rglob("weights.pt"))
    for file in files:
        other = tmp_path / "killed" / file.relative_to(tmp_path / "whole")
        assert file.read_bytes() == other.read_bytes()
