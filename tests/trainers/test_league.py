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

from agentgym.agents import MixedAgent, View, make_agent
from agentgym.agents.basic.chat import ChatAgent
from agentgym.errors import CheckpointError, ConfigError
from agentgym.evaluation import nashconv
from agentgym.evaluation.meta_games import META_STRATEGIES
from agentgym.trainers import train
from agentgym.trainers.api import make_trainer
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.players.league import GAMES, League, Results, member_name, pfsp
from agentgym.trainers.players.payoffs import Payoffs
from agentgym.trainers.players.pool import Pool
from agentgym.trainers.policy.lora import LoraSettings
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.rollout.seats import SELF, GamePlay
from agentgym.trainers.settings.opponents import Opponent

from .test_self_play import SMALL, Played, equal, model, quick, run, weights

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
        "rae", tmp_path, callbacks=[played], opponents=("league", "scripted"), iterations=1, seed=2
    )
    [trajectories] = played.trajectories
    games = [t for t in trajectories if t.opponent == "iteration 0"]
    assert 0 < len(games) < len(trajectories)
    for trajectory in trajectories:
        outcome = trajectory.result
        expected = 0.5 + 0.5 * np.sign(trajectory.episode_return)
        assert outcome == (expected if trajectory in games else None)
    results = Results()
    for trajectory in games:
        assert trajectory.result is not None
        results.add(trajectory.result)
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


def test_a_served_model_plays_the_other_seat_and_is_not_trained(
    tmp_path: Path, model: str, monkeypatch: pytest.MonkeyPatch
):
    asked: list[Any] = []  # seats of games

    def bold(self: ChatAgent, views: list[View]) -> list[str]:
        asked.extend(view.env for view in views)
        return [view.info["admissible"][-1] for view in views]  # bets and folds

    monkeypatch.setattr(ChatAgent, "act", bold)
    opponents = "chat:llama@http://127.0.0.1:9/v1"
    played = Played()
    trainer, _ = run("rae", tmp_path, callbacks=[played], opponents=opponents, iterations=1)
    [trajectories] = played.trajectories
    assert [t.opponent for t in trajectories] == ["chat:llama"] * 8
    assert [t.agent for t in trajectories] == ["player_0", "player_1"] * 4
    assert {seat.agent for seat in asked} == {"player_0", "player_1"}
    observations = [turn.observation for t in trajectories for turn in t.turns]
    assert any("your opponent bets" in text for text in observations)
    assert not any(f"your opponent {act}" in o for o in observations for act in ("checks", "calls"))
    start = Policy.load(model).state_dict()
    assert any(not torch.equal(start[name], value) for name, value in weights(trainer).items())


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
        ({"opponents": ("mirror", "past:5=auto")}, "Set eval_exploitability"),
        ({"opponents": ("scripted", "past:5=auto")}, "=auto needs mirror beside it"),
        ({"opponents": ("mirror", "winrate:0.7=auto")}, "=auto is the weight of one of"),
        ({"opponents": ("mirror", "scripted:tight=auto")}, "got 'scripted:tight'"),
        ({"opponents": "chat:llama"}, "chat:MODEL@URL"),
        ({"opponents": "psro", "env_id": "StagHunt-v0", "env_kwargs": {}}, "psro:alpharank"),
        (
            {"opponents": "psro", "env_id": "LiarsDice-v0", "env_kwargs": {"num_players": 3}},
            "two players, and AgentGym/LiarsDice-v0 is none: use psro:alpharank",
        ),
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
    return [SimpleNamespace(opponent=opponent, result=outcome)] * count


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


@pytest.mark.parametrize(("rate", "members"), [("0.01", [0, 2]), ("0.99", [0])])
def test_a_run_adds_a_member_when_it_wins_at_the_rate(
    rate: str, members: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The rate counts after 32 games, which are two iterations."""
    monkeypatch.setattr("agentgym.trainers.players.league.GAMES", 32)
    few = {"env_kwargs": {"hands": 1}, "episodes_per_iteration": 16, "num_envs": 16}
    few |= {"iterations": 3, "snapshot_every": 1, "opponents": f"winrate:{rate}"}
    played = Played()
    trainer, rows = run("rae", tmp_path, callbacks=[played], **few)
    league = trainer.rollouts.players.league
    assert league is not None and league.members == members
    met = [{t.opponent for t in trajectories} for trajectories in played.trajectories]
    assert met[:2] == [{"iteration 0"}] * 2 and met[2] == {member_name(n) for n in members}
    assert rows[-1]["pool/members"] == len(members)
    assert league.probabilities == dict.fromkeys(members, 1 / len(members))


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
@pytest.mark.parametrize("kind", ["psro:nash", "psro:uniform", "psro:alpharank", "psro"])
def test_psro_meets_its_mixture_and_its_average_policy_is_evaluated(kind: str, tmp_path: Path):
    played = Played()
    opponents = (f"{kind}=0.75", "mirror=0.25")
    trainer, _ = run("rae", tmp_path, **PSRO | {"opponents": opponents}, callbacks=[played])
    league = trainer.rollouts.players.league
    assert league is not None and league.members == [0, 1, 2, 3]
    pool = Pool(tmp_path, trainer.policy)
    mixture = pool.read_mixture()
    assert mixture == league.average() and sum(mixture.values()) == pytest.approx(1)
    digests = {number: pool.digest(number) for number in league.members}
    matrix = payoffs(tmp_path / "pool", digests, calls := []).matrix(league.members)
    expected = META_STRATEGIES[kind.partition(":")[2] or "nash"](matrix)
    assert [*mixture.values()] == pytest.approx(expected.tolist()) and not calls
    before = META_STRATEGIES[kind.partition(":")[2] or "nash"](matrix[:3, :3])
    possible = {member_name(n) for n, share in enumerate(before) if share > 0}
    assert {t.opponent for t in played.trajectories[-1]} - {SELF} <= possible
    assert SELF in {t.opponent for trajectories in played.trajectories for t in trajectories}
    shutil.copytree(trainer.folder.latest() / "policy", tmp_path / "policy")  # type: ignore[operator]
    agent = make_agent(f"league:{tmp_path}", temperature=1.0)
    assert isinstance(agent, MixedAgent)
    shares = dict(zip((member.name for member in agent.members), agent.weights, strict=True))
    assert shares == pytest.approx({member_name(n): w for n, w in mixture.items() if w > 0})
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
    if opponents is not PSRO["opponents"]:
        del settings["payoff_deals"]
    killed(tmp_path / "killed", 8 * 2 + 5, settings)
    resumed, rows = run("rae", tmp_path / "killed", **settings)
    whole, expected = run("rae", tmp_path / "whole", **settings)
    assert rows == expected and equal(resumed, whole)
    assert resumed.rollouts.players.state_dict() == whole.rollouts.players.state_dict()
    files = sorted((tmp_path / "whole" / "pool").rglob("weights.pt"))
    for file in files:
        other = tmp_path / "killed" / file.relative_to(tmp_path / "whole")
        assert file.read_bytes() == other.read_bytes()
