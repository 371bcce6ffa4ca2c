"""Training in all seats of a game: `--opponents mirror`, and the recipes rae and dr_mas."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.errors import ConfigError
from agentgym.evaluation import nashconv
from agentgym.multiagent.seats import FunctionAgent
from agentgym.registration.making import make_env
from agentgym.trainers import Callback, recipes, train
from agentgym.trainers.api import make_trainer
from agentgym.trainers.credit.given import given_credit
from agentgym.trainers.credit.group import GroupBaseline
from agentgym.trainers.credit.joint import Joint
from agentgym.trainers.credit.normalize import normalize_advantages
from agentgym.trainers.critics.value_model import ValueModel
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.hooks.run import Run
from agentgym.trainers.players.lineup import Lineup
from agentgym.trainers.policy.ensemble import Ensemble
from agentgym.trainers.policy.lora import LoraSettings
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy.sampling import Sampling
from agentgym.trainers.policy.tiny import tiny_policy
from agentgym.trainers.policy_agent import load_agent
from agentgym.trainers.recipes.at_grpo import StateGroups, Taken
from agentgym.trainers.recipes.marshal import RoleReturns
from agentgym.trainers.recipes.rae import RoleBaselines
from agentgym.trainers.recipes.vine import Continuations
from agentgym.trainers.rollout.branches import episodes_of, orders_of, turn_at, turns_before
from agentgym.trainers.rollout.seats import GamePlay, GameSpec
from agentgym.trainers.run.conclusion import _baseline, exploitability
from agentgym.trainers.run.evaluation import evaluate_seats, evaluate_team
from agentgym.trainers.run.logger import read_metrics
from agentgym.trainers.settings.config import TrainConfig
from agentgym.trainers.system.signals import Interrupted
from agentgym.trainers.trainer import Trainer

from ..helpers.played import Played
from ..helpers.worlds import generators, random_batch, trajectory

SMALL: dict[str, Any] = {
    "env_id": "KuhnPoker-v0", "env_kwargs": {"hands": 2}, "opponents": "mirror",
    "context": "current", "instructions": False, "constrain": True, "iterations": 2,
    "episodes_per_iteration": 8, "num_envs": 3, "epochs": 1, "minibatches": 1,
    "lr": 1e-3, "eval_episodes": 0, "device": "cpu", "threads": 1, "quiet": True, "log_with": (),
}  # fmt: skip


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("model")
    tiny_policy("KuhnPoker-v0", size="nano", folder=folder, episodes=16)
    return str(folder)


@pytest.fixture(autouse=True)
def quick(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs start from one model, and draw no curve."""
    monkeypatch.setitem(SMALL, "model", model)
    monkeypatch.setattr("agentgym.trainers.trainer.conclude", lambda *_, **__: [])


def run(recipe: str, folder: Path, **changes: Any) -> tuple[Trainer, list[dict[str, Any]]]:
    """Trains, and returns the trainer and what it logged, without what depends on the clock."""
    trainer = make_trainer(recipe, run_dir=str(folder), **SMALL | changes)
    trainer.run()
    rows = read_metrics(folder)
    return trainer, [{k: v for k, v in row.items() if "time/" not in k} for row in rows]


def weights(trainer: Trainer) -> dict[str, torch.Tensor]:
    return trainer.policy.state_dict()


def equal(a: Trainer, b: Trainer) -> bool:
    return all(torch.equal(weights(a)[name], value) for name, value in weights(b).items())


def test_all_seats_are_trained_and_logged_by_role(tmp_path: Path):
    played = Played()
    trainer, rows = run("poad", tmp_path, callbacks=[played], eval_episodes=6)
    for trajectories in played.trajectories:
        agents = [(t.agent, t.role, t.opponent) for t in trajectories]
        assert agents == [(f"player_{i}", f"player_{i}", "self") for i in range(2)] * 8
        assert sum(t.episode_return for t in trajectories) == pytest.approx(0)
    mine = [t.episode_return for t in played.trajectories[-1] if t.role == "player_1"]
    assert rows[-1]["rollout/player_1/return"] == pytest.approx(np.mean(mine))
    assert trainer.state.episodes == 16
    first, second = (rows[-1][f"eval/player_{i}/reward"] for i in range(2))
    assert rows[-1]["eval/reward"] == pytest.approx((first + second) / 2)


@pytest.mark.parametrize(
    ("opponents", "agents"), [("mirror", 2), ("scripted:random", 2), ("scripted", 1)]
)
def test_a_game_of_experts_is_a_demonstration_of_every_seat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opponents: str, agents: int
):
    cloned: list[Trajectory] = []
    name = "agentgym.trainers.imitation.behaviour_cloning.with_general"
    monkeypatch.setattr(name, lambda _, found, *more: cloned.extend(found) or found)
    few = {"bc_demonstrations": 5, "bc_epochs": 1, "iterations": 0}
    run("poad", tmp_path, opponents=opponents, **few)
    assert len(cloned) == 5 * agents
    if agents == 2:
        assert [t.agent for t in cloned] == ["player_0", "player_1"] * 5
        for first, second in zip(cloned[::2], cloned[1::2], strict=True):
            assert first.episode == second.episode
            assert first.episode_return == -second.episode_return


SHOWN: dict[str, Any] = {
    "eval_every": 1, "eval_episodes": 2, "eval_exploitability": 64, "eval_temperature": 1.0,
}  # fmt: skip


def test_exploitability_of_each_evaluation_is_that_of_the_policy(tmp_path: Path):
    shown = SHOWN
    _, rows = run("rae", tmp_path, iterations=1, **shown)
    policy = load_agent(str(tmp_path / "checkpoints" / "000001" / "policy"))
    expected = nashconv("KuhnPoker-v0", policy, env_kwargs=SMALL["env_kwargs"])
    found = [row["eval/nashconv"] for row in rows if "eval/nashconv" in row]
    assert len(found) == 2 and found[0] != found[1] == pytest.approx(expected.nashconv)
    assert rows[-1]["eval/exploitability"] == pytest.approx(expected.exploitability)
    random = nashconv("KuhnPoker-v0", "random", env_kwargs=SMALL["env_kwargs"]).exploitability
    assert rows[-1]["eval/exploitability_random"] == pytest.approx(random)
    line = f"NashConv: {found[0]:.3f} at the start, {found[1]:.3f} at the end (0: equilibrium)."
    assert exploitability(tmp_path) == [line] and exploitability(tmp_path / "none") == []
    for changes, message in (
        ({"env_id": ("KuhnPoker-v0", "LeducPoker-v0"), "env_kwargs": {}}, "evaluates one game"),
        ({"eval_episodes": 0}, "set eval_episodes above 0"),
        ({"learners": ("player_0",)}, r"in all seats: set learners to \(\)"),
        ({"wrap": ("ExtractAction",), "constrain": False}, r"no wrappers: set wrap to \(\)"),
    ):
        with pytest.raises(ConfigError, match=message):
            run("rae", tmp_path / "wrong", **shown | changes)


def test_a_large_game_has_a_lower_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("agentgym.trainers.run.exploitability.MOST_INFOSETS", 3)
    opponents = ("mirror=1", "past:2=0")
    _, rows = run("rae", tmp_path, iterations=2, opponents=opponents, snapshot_every=1, **SHOWN)
    [*_, last] = [row for row in rows if "eval/reward" in row]
    assert last["eval/exploitability_low"] < last["eval/exploitability"]
    assert last["eval/exploitability"] < last["eval/exploitability_high"]
    assert not any("eval/nashconv" in row for row in rows)
    [line] = exploitability(tmp_path)
    assert line.startswith("Exploitability: ") and "lower bound" in line


def test_the_least_exploitable_policy_is_the_best(tmp_path: Path):
    trainer, rows = run("rae", tmp_path, iterations=3, **SHOWN)
    values = {row["iteration"]: row["eval/exploitability"] for row in rows if "eval/reward" in row}
    best = min(values, key=values.__getitem__)
    assert trainer.state.best_iteration == best
    assert trainer.state.best_exploitability == values[best]
    saved = json.loads((tmp_path / "best" / "agentgym_policy.json").read_text("utf-8"))
    assert saved["iteration"] == best


def test_a_run_of_an_earlier_version_continues(tmp_path: Path):
    """Its settings have `eval_nashconv`, and its state nothing about exploitability."""
    run("rae", tmp_path, iterations=1, **SHOWN)
    config, state = tmp_path / "config.json", tmp_path / "checkpoints" / "000001" / "state.json"
    saved = json.loads(config.read_text("utf-8"))
    del saved["config"]["eval_exploitability"]
    saved["config"]["eval_nashconv"] = True
    config.write_text(json.dumps(saved), "utf-8")
    progress = json.loads(state.read_text("utf-8"))
    del progress["progress"]["self_play"], progress["progress"]["best_exploitability"]
    state.write_text(json.dumps(progress), "utf-8")
    (state.parent / "checksums.json").unlink(missing_ok=True)
    old = {key: value for key, value in SHOWN.items() if key != "eval_exploitability"}
    trainer, rows = run("rae", tmp_path, iterations=2, resume=True, eval_nashconv=True, **old)
    assert trainer.config.evaluation.eval_exploitability == 2000
    assert "eval/nashconv" in rows[-1] and trainer.state.best_exploitability is not None


def test_a_team_is_evaluated_in_all_seats(tmp_path: Path):
    team = {"env_id": "Team-Countdown-v0", "env_kwargs": {"roles": "pioneer-observer"}}
    changes = team | {"eval_episodes": 6, "iterations": 1, "constrain": False}
    changes["roles"] = "separate"
    trainer, rows = run("cory", tmp_path / "self", **changes)
    evaluations = [row for row in rows if "eval/reward" in row]
    assert [row["eval/success"] for row in evaluations] == [0, 0]  # beside scripted ones: 1/2
    assert {"eval/player_0/reward", "eval/player_1/reward"} < {*evaluations[0]}
    last = trainer.state.last
    assert last is not None and last["planned"] == len(last["episodes"]) == 6
    for agent, success in (("random", 0), ("expert", 1)):
        baseline = _baseline(trainer.config, trainer.make_eval_env, agent, team=True)
        assert baseline.agent == agent and baseline.aggregate()["success"].mean == success
    _, rows = run("cory", tmp_path / "scripted", **changes, eval_partners="scripted")
    assert [row["eval/player_0/success"] for row in rows if "eval/reward" in row] == [1, 1]
    for wrong in (
        {"opponents": "scripted", "roles": "shared"},
        {"learners": ("player_0",)},
        {"wrap": (TAGS,)},
        {"env_id": ("KuhnPoker-v0", "LeducPoker-v0"), "env_kwargs": {}},
        {"eval_env_id": ("LeducPoker-v0",)},
    ):
        with pytest.raises(ConfigError, match="eval_partners"):
            run("rae", tmp_path / "wrong", **{"eval_partners": "self", "eval_episodes": 2} | wrong)


def test_invalid_actions_cost_as_much_in_a_team_as_in_a_seat():
    kwargs = {"invalid_penalty": 0.5, "rounds": 1}
    env = "EinsteinPuzzle-Menu-v0"
    config = TrainConfig.of(env_id=env, opponents="mirror", env_kwargs=kwargs, eval_episodes=2)
    agent = FunctionAgent(lambda view: "nonsense")
    team, seats = evaluate_team(config, agent)
    make = lambda: make_env(env, split="test", **kwargs)  # noqa: E731
    alone = evaluate_seats(config, make, agent, ["player_0"])["player_0"].episodes[0]
    costs = [record.reward_terms["invalid"] for record in (*team.episodes, alone)]
    assert costs == [-0.5 * record.turns for record in (*team.episodes, alone)]
    assert [*seats] == ["player_0", "player_1"] and costs[0] < 0


@pytest.mark.parametrize(
    ("changes", "team"),
    [
        ({}, True),
        ({"opponents": "past:2"}, True),
        ({"opponents": ("mirror=1", "scripted=1")}, False),
        ({"learners": ("player_0",)}, False),
        ({"eval_env_id": ("KuhnPoker-v0",)}, False),
        ({"env_id": "KuhnPoker-v0"}, False),
        ({"env_id": "KuhnPoker-v0", "eval_partners": "self"}, True),
        ({"opponents": "scripted"}, False),
    ],
)
def test_a_team_is_one_game_with_a_common_reward_that_the_policy_plays_alone(changes, team):
    settings = {"env_id": "Team-NumberLine-v0", "opponents": "mirror"} | changes
    config = TrainConfig.of(**settings)
    assert Lineup(config, make_env(settings["env_id"])).team is team


def test_a_pool_that_grows_with_wins_needs_a_game_that_can_be_won(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"common reward, so nobody wins, and winrate:0\.7"):
        run("rae", tmp_path, env_id="Team-NumberLine-v0", env_kwargs={}, opponents="winrate:0.7")


TAGS = "ExtractAction:format=tags,format_penalty=0.5"


@pytest.mark.parametrize(
    ("recipe", "common"),
    [
        ("poad", {"horizons": (1, 2), "horizon_every": 1}),
        ("rae", {}),
        ("turn", {"wrap": (TAGS,), "constrain": False, "max_new_tokens": 3, "iterations": 1}),
    ],
)
def test_one_trained_seat_learns_as_in_the_single_seat_environment(
    recipe: str, common: dict[str, Any], tmp_path: Path
):
    seat, kwargs = "player_1", {"hands": 2, "opponents": "random"}
    seats = {"env_kwargs": kwargs, "learners": (seat,), **common}
    single = {"env_kwargs": kwargs | {"seat": seat}, "opponents": "scripted", **common}
    (one, rows), (other, expected) = (
        run(recipe, tmp_path / name, **changes)
        for name, changes in (("seats", seats), ("single", single))
    )
    assert equal(one, other)
    for row, found in zip(expected, rows, strict=True):
        role = {name for name in found if f"/{seat}" in name}
        assert {k: v for k, v in found.items() if k not in role} == {
            k: v for k, v in row.items() if k != "credit/baseline/agent"
        }


def test_a_horizon_ends_a_game_when_a_seat_has_used_its_turns(tmp_path: Path):
    played = Played()
    settings = {"env_id": "RockPaperScissors-v0", "env_kwargs": {}, "horizons": (2,)}
    run("poad", tmp_path, callbacks=[played], iterations=1, **settings)
    [trajectories] = played.trajectories
    assert len(trajectories) == 16
    for each in trajectories:
        assert len(each.turns) == 2 and each.truncated and not each.terminated
        assert each.bootstrap is not None


def test_the_critic_is_fitted_to_episodes_of_all_seats(tmp_path: Path, monkeypatch):
    batches: list[Batch] = []
    begin = ValueModel.begin

    def seen(critic: ValueModel, batch: Batch, *args: Any) -> None:
        batches.append(batch)
        begin(critic, batch, *args)

    monkeypatch.setattr(ValueModel, "begin", seen)
    own = {"critic_backbone": "separate", "critic_episodes": 3, "critic_epochs": 1}
    run("poad", tmp_path, iterations=0, **own)
    [batch] = batches
    assert [t.agent for t in batch.trajectories] == ["player_0", "player_1"] * 3


def test_groups_hold_the_same_deal_in_the_same_seat(tmp_path: Path):
    played = Played()
    run("dr_mas", tmp_path, callbacks=[played], group_size=4, iterations=1)
    [trajectories] = played.trajectories
    groups = Batch.of(trajectories).groups
    assert np.bincount(groups).tolist() == [4] * 4
    for number in range(4):
        members = [t for t, group in zip(trajectories, groups, strict=True) if group == number]
        assert len({t.agent for t in members}) == 1
        assert len({t.turns[0].observation.partition("Chips")[0] for t in members}) == 1


@pytest.mark.slow
def test_a_killed_run_goes_on_as_if_nothing_had_happened(tmp_path: Path, monkeypatch):
    """The baselines are those of the checkpoint, and half a rollout is not taken."""
    settings = {"iterations": 3, "resume": True}
    whole, expected = run("rae", tmp_path / "whole", **settings)
    calls, original = 0, GamePlay.trajectories

    def killed(game: GamePlay) -> list[Trajectory]:
        nonlocal calls
        calls += 1
        if calls == 8 + 5:
            raise KeyboardInterrupt
        return original(game)

    monkeypatch.setattr(GamePlay, "trajectories", killed)
    with pytest.raises(KeyboardInterrupt):
        run("rae", tmp_path / "killed", **settings)
    assert (tmp_path / "killed" / "journal").exists()
    resumed, rows = run("rae", tmp_path / "killed", **settings)
    assert isinstance(whole.hooks, RoleBaselines) and isinstance(resumed.hooks, RoleBaselines)
    assert resumed.hooks.baselines == whole.hooks.baselines != {}
    assert rows == expected and equal(resumed, whole)


def test_finished_games_are_taken_from_the_journal(tmp_path: Path):
    played = Played()
    trainer = make_trainer("rae", run_dir=str(tmp_path), callbacks=[played], **SMALL)
    first = trainer.rollouts.collect(0)
    trainer.rollouts.journal._found = None  # as a resumed run reads them
    again = trainer.rollouts.collect(0)
    assert [t.agent for t in again] == [t.agent for t in first]
    assert all(a is not b for a, b in zip(first, again, strict=True))
    for a, b in zip(first, again, strict=True):
        assert (a.role, a.opponent, a.group) == (b.role, b.opponent, b.group)
        assert [turn.action for turn in a.turns] == [turn.action for turn in b.turns]
        assert a.episode == b.episode
        for one, two in zip(a.turns, b.turns, strict=True):
            assert (one.order, one.clock, one.delayed) == (two.order, two.clock, two.delayed)
    assert any(turn.delayed for t in again for turn in t.turns)
    trainer.folder.close()


@pytest.mark.parametrize(
    ("recipe", "changes", "message"),
    [
        ("grpo", {"group_size": 4}, "zero-sum game.* rae"),
        ("gigpo", {"group_size": 4}, "zero-sum game.* rae"),
        ("magrpo", {"group_size": 4}, "zero-sum game.* rae"),
        ("marft", {}, "zero-sum game.* rae"),
        ("poad", {"env_id": "NumberLine-v0", "env_kwargs": {}}, "has one agent"),
        ("poad", {"env_kwargs": {"seat": "player_0"}}, "seat = 'player_0'.* learners"),
        ("poad", {"learners": ("player_7",)}, "must be agents of .*got 'player_7'. Did you mean"),
        ("poad", {"learners": ("player_0",), "opponents": "scripted"}, "learners belongs to self"),
        ("poad", {"wrap": ("HistoryObservation",)}, "HistoryObservation wraps a single agent"),
        ("poad", {"reward": lambda t: 1.0}, "RewardFunction wraps a single agent"),
        ("arpo_entropy", {"env_id": "Overcooked-Cooks-v0", "env_kwargs": {}, "group_size": 4},
         "arpo_entropy has no opponents"),
        ("bc", {}, "bc has no opponents"),
        ("vine", {"opponents": "past:2"}, "other players do not"),
        ("poad", {"kl_reference": "moving", "kl_coef": 0.1}, "'start', 'moving:K' with .*TAU'"),
        ("poad", {"kl_reference": "polyak:1.5", "kl_coef": 0.1}, r"in \(0, 1\], got 'polyak:1.5'"),
        ("poad", {"kl_reference": "polyak:0", "kl_coef": 0.1}, r"in \(0, 1\], got 'polyak:0'"),
        ("cory", {"kl_reference": "polyak:0.1", "kl_coef": 0.1, "roles": "separate",
                  "exchange": 2}, "follows one policy: set kl_reference to 'start'"),
        ("poad", {"kl_reference": "moved:5", "kl_coef": 0.1}, "got 'moved:5'"),
        ("poad", {"kl_reference": "moving:5"}, "set kl_coef above 0"),
    ],
)  # fmt: skip
def test_wrong_combinations_are_explained(recipe: str, changes: Any, message: str, tmp_path: Path):
    with pytest.raises(ConfigError, match=re.compile(message, re.DOTALL)):
        train(recipe, run_dir=str(tmp_path), **SMALL | changes)


def test_groups_of_a_single_trained_seat_are_allowed(tmp_path: Path):
    run("grpo", tmp_path, group_size=4, learners=("player_0",), iterations=1)


def test_a_mirror_that_is_never_played_is_no_zero_sum_game_against_itself(tmp_path: Path):
    run("grpo", tmp_path, group_size=4, opponents=("mirror=0", "past:2=1"), iterations=1)


@pytest.mark.parametrize(("recipe", "changes"), [("grpo", {"group_size": 4}), ("marft", {})])
def test_a_team_in_a_zero_sum_game_is_trained(recipe: str, changes: dict[str, Any], tmp_path: Path):
    """The spymaster and the guesser of a team have the same return, which is not 0."""
    team = ("player_0", "player_1")
    game = {"env_id": "Codenames-Menu-v0", "env_kwargs": {}, "learners": team, "iterations": 1}
    played = Played()
    run(recipe, tmp_path, callbacks=[played], **game, **changes)
    [trajectories] = played.trajectories
    assert {t.agent for t in trajectories} == set(team)
    for one, other in zip(trajectories[::2], trajectories[1::2], strict=True):
        assert one.episode == other.episode and one.episode_return == other.episode_return
    assert np.mean([t.episode_return for t in trajectories]) != 0


@pytest.mark.parametrize("several", [{"env_id": ("KuhnPoker-v0", "LeducPoker-v0")},
                                     {"eval_env_id": ("LeducPoker-v0",)}])  # fmt: skip
def test_several_games_are_evaluated_in_the_trained_seats(several: Any, tmp_path: Path):
    """Those of a single game too. The policy has no role for the others."""
    changes = several | {"learners": ("player_1",), "roles": "separate", "eval_episodes": 4}
    _, rows = run("rae", tmp_path, iterations=0, **changes)
    evaluated = {key for row in rows for key in row if key.endswith("/success")}
    games = {"eval/KuhnPoker-v0/success", "eval/LeducPoker-v0/success"}
    assert evaluated == games | {"eval/success", "eval/player_1/success"}


def test_seats_are_trained_as_often_if_an_iteration_has_fewer_groups(tmp_path: Path):
    changes: dict[str, Any] = {
        "env_id": "LiarsDice-Four-v0", "env_kwargs": {}, "opponents": "scripted:random",
        "group_size": 2, "episodes_per_iteration": 6,
    }  # fmt: skip
    trainer = make_trainer("grpo", run_dir=str(tmp_path), **SMALL | changes)
    trainer.folder.close()
    specs = [spec for iteration in range(4) for spec in trainer.rollouts.episodes(iteration)]
    groups = [[agent for agent, _ in spec.seats] for spec in specs if isinstance(spec, GameSpec)]
    assert groups[::2] == groups[1::2] == [[f"player_{i % 4}"] for i in range(12)]


# Snapshots.

PAST = {"opponents": "past:2", "snapshot_every": 2, "iterations": 4, "episodes_per_iteration": 12}


@pytest.mark.slow
def test_one_seat_in_turn_is_trained_against_sampled_snapshots(tmp_path: Path):
    played = Played()
    trainer, _ = run("grpo", tmp_path, callbacks=[played], group_size=2, **PAST)
    for iteration, trajectories in enumerate(played.trajectories):
        assert [t.agent for t in trajectories] == ["player_0"] * 2 + ["player_1"] * 2 + [
            *["player_0"] * 2, *["player_1"] * 2, *["player_0"] * 2, *["player_1"] * 2
        ]  # fmt: skip
        members = {f"iteration {n}" for n in (0, 2) if iteration - 4 < n <= iteration}
        assert {t.opponent for t in trajectories} == members
    pool = trainer.rollouts.players._pool
    old, new = pool.load((0, 2)).values()
    pairs = zip(old.parameters(), new.parameters(), strict=True)
    assert not all(torch.equal(a, b) for a, b in pairs)
    assert not any(parameter.requires_grad for parameter in old.parameters())


def test_a_frozen_copy_shares_the_base_of_an_adapter(model: str):
    policy = Policy.load(model, lora=LoraSettings(2, 4.0))
    copied = policy.frozen_copy()
    mine, other = dict(policy.named_parameters()), dict(copied.named_parameters())
    assert mine.keys() == other.keys()
    for name, parameter in mine.items():
        assert (other[name] is parameter) == ("lora_" not in name)


def test_each_request_of_an_ensemble_is_answered_by_its_weights():
    def policy(text: str) -> Any:
        def act(requests: Any, sampling: Any, session: Any) -> list[str]:
            assert session == f"session of {text}"
            return [f"{text} {request.prompt}" for request in requests]

        return SimpleNamespace(
            act=act, session=lambda **_: f"session of {text}", encode_action=None, decode=None
        )

    ensemble = Ensemble(policy("new"), {"old": policy("old")})
    requests: Any = [SimpleNamespace(prompt=i, weights=("", "old")[i % 2]) for i in range(3)]
    acted = ensemble.act(requests, Sampling(), ensemble.session())
    assert acted == ["new 0", "old 1", "new 2"]


class UntilLearned(Played):
    """Stops training as soon as three iterations of Kuhn poker are played well."""

    def share(self, card: str, action: str, iterations: slice) -> float:
        """How often a legal action is chosen with a card."""
        turns = [
            turn.action == action
            for trajectories in self.trajectories[iterations]
            for trajectory in trajectories
            for turn in trajectory.turns
            if f"Your card is {card}" in turn.observation and action in turn.admissible
        ]
        return float(np.mean(turns))

    @property
    def learned(self) -> bool:
        first, last = slice(0, 1), slice(-3, None)
        worse = max(0.6, self.share("Q", "fold", last), self.share("J", "fold", first))
        kings = min(self.share("K", action, last) for action in ("bet", "call"))
        return kings > 0.95 and self.share("J", "fold", last) > worse

    def on_update_end(self, trainer: Run, metrics: Mapping[str, float]) -> bool:
        return not self.learned


@pytest.mark.slow
def test_self_play_learns_to_bet_the_king_and_to_fold_the_jack(tmp_path: Path):
    """Kuhn poker from nothing: no demonstrations, no scripted opponents."""
    until = UntilLearned()
    run(
        "rae", tmp_path, callbacks=[until], env_kwargs={"hands": 1}, iterations=24,
        episodes_per_iteration=128, num_envs=128, lr=2e-3, entropy_coef=0.05, epochs=2,
        minibatches=4, seed=0,
    )  # fmt: skip
    assert until.share("K", "bet", slice(0, 1)) < 0.7
    assert until.learned


# Teams.


@pytest.mark.parametrize(
    ("recipe", "settings"),
    [("marft", {"level": "action"}), ("marft", {"kl_in": "reward", "kl_coef": 0.1}),
     ("magrpo", {"group_size": 4}), ("advantage_alignment", {"group_size": 4})],
)  # fmt: skip
def test_a_team_is_trained_over_its_joint_trajectories(
    recipe: str, settings: dict[str, Any], tmp_path: Path
):
    game = {"env_id": "PrisonersDilemma-v0", "env_kwargs": {"max_turns": 3}, "iterations": 1}
    played = Played()
    trainer, [row] = run(recipe, tmp_path, callbacks=[played], **game, **settings)
    batch = Batch.of(played.trajectories[0])
    joint = Joint.of(batch)
    assert len(joint.batch.trajectories) == 8 and joint.hops.sum() == 8 * 3
    assert row["credit/advantage_std"] > 0 and np.isfinite(row["losses/policy_loss"])
    if recipe == "magrpo":
        credit = trainer.algorithm.estimator
        assert credit is not None
        one, two = np.split(credit(batch, None).advantages[batch.token_offsets[:-1]][:6], 2)
        assert np.array_equal(one, two)  # both agents of an episode, in each turn


# Branches.


def acted(trajectory: Trajectory) -> list[Any]:
    return [(turn.observation, turn.action, turn.order) for turn in trajectory.turns]


@pytest.mark.slow
@pytest.mark.parametrize("env_id", ["KuhnPoker-v0", "RockPaperScissors-v0"])
def test_a_branch_repeats_a_game_up_to_a_turn(env_id: str, tmp_path: Path):
    """All seats act as before it, and see the same state. Hidden cards are the same too."""
    kwargs = {"hands": 2} if env_id == "KuhnPoker-v0" else {}
    settings = SMALL | {"env_id": env_id, "env_kwargs": kwargs}
    trainer = make_trainer("vine", run_dir=str(tmp_path), **settings)
    [members, *_] = episodes_of(trainer.rollouts.collect(0))
    found = orders_of(members)
    again = [trainer.lineup.branch(members, order, (1, order)) for order in found]
    for order, branch in zip(found, episodes_of(trainer.play(again)), strict=True):
        for each in members:
            before = turns_before(each, order)
            mine = next((b for b in branch if b.agent == each.agent), None)
            assert before == 0 or mine is not None
            if mine is not None:
                assert acted(mine)[:before] == acted(each)[:before]
                if turn_at(each, order) is not None:
                    assert acted(mine)[before][0] == acted(each)[before][0]
    assert again[-1].replayed == sum(turns_before(each, found[-1]) for each in members) > 1
    trainer.folder.close()


@pytest.mark.slow
def test_vine_values_the_states_of_each_seat_by_its_own_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """In a zero-sum game, the values of seats that act at once add up to 0."""
    trainer = make_trainer("vine", run_dir=str(tmp_path), **SMALL | {
        "env_id": "RockPaperScissors-v0", "env_kwargs": {}, "train_tasks": 1,
        "episodes_per_iteration": 2,
    })  # fmt: skip
    trainer.make_hooks()
    hooks = trainer.hooks
    assert isinstance(hooks, Continuations)
    values: dict[int, list[float]] = {}
    advantages = hooks._advantages

    def watched(fresh: list[Trajectory], found: list[list[float]]) -> Any:
        values.update(zip(map(id, fresh), found, strict=True))
        return advantages(fresh, found)

    monkeypatch.setattr(hooks, "_advantages", watched)
    fresh = hooks.on_rollout_end(trainer.rollouts.collect(0), 0, np.random.default_rng(0))
    for one, two in episodes_of(fresh.trajectories):
        first, second = (np.array(values[id(each)]) for each in (one, two))
        assert first == pytest.approx(-second) and np.ptp(first) > 0
    trainer.folder.close()


@pytest.mark.slow
@pytest.mark.parametrize("next_state", ["best", "first", "sampled"])
def test_at_grpo_compares_actions_of_one_agent_from_one_state(
    next_state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    settings = {"episodes_per_iteration": 24, "group_size": 4, "next_state": next_state}
    trainer = make_trainer("at_grpo", run_dir=str(tmp_path), **SMALL | settings)
    trainer.make_hooks()
    hooks = trainer.hooks
    assert isinstance(hooks, StateGroups)
    last: Any = SimpleNamespace(integers=lambda count: count - 1)  # samples the last branch
    taken: list[Taken] = []
    compared = hooks._compared
    monkeypatch.setattr(hooks, "_compared", lambda found: taken.extend(found) or compared(found))
    found = hooks.on_rollout_end(trainer.rollouts.collect(0), 0, last)
    played, advantages = found.trajectories, np.asarray(found.weights)
    groups: dict[Any, list[Trajectory]] = {}
    outcome_of: dict[int, float] = {}
    for each, outcome, state in taken:
        assert len(each.turns) == 1 and len(each.segments[0].tokens) == each.turns[0].stop
        groups.setdefault((state, each.agent), []).append(each)
        outcome_of[id(each)] = outcome
    assert len(groups) > 2 * 2  # Kuhn poker: one seat acts in each state
    for members in groups.values():
        assert len(members) == 4
        assert len({(m.seed, m.turns[0].observation) for m in members}) == 1
    for members in groups.values():
        mine = [i for i, t in enumerate(played) if any(t is m for m in members)]
        outcomes = np.array([outcome_of[id(played[i])] for i in mine])
        expected = (outcomes - outcomes.mean()) / (outcomes.std(ddof=1) + 1e-6)
        assert advantages[mine] == pytest.approx(expected, abs=1e-5)
    # The second state, in which the other player acts, follows one of the branches of the first.
    rules = {
        "best": lambda branches: max(branches, key=lambda each: outcome_of[id(each)]),
        "first": lambda branches: branches[0],
        "sampled": lambda branches: branches[-1],
    }
    followed: dict[str, list[str]] = {name: [] for name in rules}
    for start in range(6):
        first, second = groups[start, "player_0"], groups[6 + start, "player_1"]
        assert first[0].seed == second[0].seed
        for name, choose in rules.items():
            followed[name].append(choose(first).turns[0].action)
        action = followed[next_state][-1]
        assert f"your opponent {action}s" in second[0].turns[0].observation
    assert len({tuple(actions) for actions in followed.values()}) == 3  # the rules differ
    trainer.folder.close()


# A reference policy that moves.


MOVING: dict[str, Any] = {"kl_coef": 0.1, "lr": 1e-2}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["moving:2", "polyak:0.3"])
def test_a_reference_that_moves_resumes_exactly(kind: str, tmp_path: Path):
    moving = MOVING | {"kl_reference": kind}
    whole, expected = run("rae", tmp_path / "whole", iterations=5, **moving)
    penalties = [row["losses/reference_kl"] for row in expected]
    renewed = (0, 2, 4) if kind == "moving:2" else (0,)
    assert all((k < 1e-6) == (i in renewed) for i, k in enumerate(penalties))
    run("rae", tmp_path / "run", iterations=3, **moving)
    resumed, rows = run("rae", tmp_path / "run", iterations=5, resume=True, **moving)
    assert rows == expected and equal(resumed, whole)


def test_an_interrupted_rollout_moves_no_reference(tmp_path: Path, monkeypatch):
    moving = MOVING | {"kl_reference": "polyak:0.3", "save_every": 5, "iterations": 3}
    whole, expected = run("rae", tmp_path / "whole", **moving)
    calls, original = 0, GamePlay.trajectories

    def interrupted(game: GamePlay) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2 * SMALL["episodes_per_iteration"] + 3:
            os.kill(os.getpid(), signal.SIGINT)
        return original(game)

    monkeypatch.setattr(GamePlay, "trajectories", interrupted)
    with pytest.raises(Interrupted):
        run("rae", tmp_path / "run", **moving)
    resumed, rows = run("rae", tmp_path / "run", resume=True, **moving)
    assert rows == expected and equal(resumed, whole)


def test_hooks_read_a_reference_that_moves_in_a_rollout(tmp_path: Path):
    """Trees of Optima are grown by the probabilities of the reference policy."""
    game = {"env_id": "PrisonersDilemma-v0", "env_kwargs": {"max_turns": 2}, "group_size": 2}
    moving = MOVING | {"kl_reference": "moving:1", "update": "dpo", "threshold": 0.0}
    run("optima", tmp_path, iterations=1, **game, **moving)


def test_the_reference_is_the_moving_average_of_the_policies_of_all_iterations(tmp_path: Path):
    name, kept = "model.model.norm.weight", []

    class Kept(Callback):
        def on_rollout_end(self, trainer: Run, trajectories: Any) -> None:
            kept.append(trainer.policy.own_weights()[name].clone())

    moving = MOVING | {"kl_reference": "polyak:0.25"}
    trainer, _ = run("rae", tmp_path, iterations=3, callbacks=[Kept()], **moving)
    first, second, third = kept
    expected = 0.75 * (0.75 * first + 0.25 * second) + 0.25 * third
    assert not torch.equal(first, third)
    torch.testing.assert_close(trainer.policy.reference_weights()[name], expected)


# RAE.


def seat(role: str, reward: float, turns: int = 1, env_id: str = "game") -> Trajectory:
    found = trajectory([2] * turns, [0.0] * (turns - 1) + [reward])
    return replace(found, agent=role, role=role, env_id=env_id)


def rae(*episodes: Trajectory, hooks: RoleBaselines | None = None, **changes: Any) -> list[float]:
    """The advantage of each token."""
    hooks = hooks or RoleBaselines(**{"decay": 0.95, "gamma": 1.0, "arguments": {}} | changes)
    found = hooks.on_rollout_end(list(episodes), 0, np.random.default_rng(0))
    return given_credit(Batch.to_learn(found)).advantages.tolist()


def test_an_episode_is_scored_before_it_counts_in_its_baseline():
    hooks = RoleBaselines(0.95, 1.0, {})
    assert rae(seat("a", 1.0), hooks=hooks) == [1.0, 1.0]  # updated first, it would be 0.95
    assert rae(seat("a", 1.0), hooks=hooks)[0] == pytest.approx(1 - 0.05)
    assert hooks.baselines.popitem()[1] == pytest.approx(0.05 + 0.95 * 0.05)
    assert rae(seat("a", 1.0), seat("a", 1.0))[::2] == pytest.approx([1.0, 0.95])


def test_agents_with_the_same_role_in_a_game_are_no_baseline_of_each_other():
    """Two villagers share their baseline, and their game counts in it once."""
    hooks = RoleBaselines(0.95, 1.0, {})
    first, second = (
        [replace(seat("villager", reward), agent=f"{i}", episode=(0, n)) for i in range(2)]
        for n, reward in enumerate((1.0, 3.0))
    )
    assert rae(*first, *second, hooks=hooks)[::2] == pytest.approx([1.0, 1.0, 2.95, 2.95])
    assert hooks.baselines.popitem()[1] == pytest.approx(0.05 * 3 + 0.95 * 0.05)


@settings(deadline=None, max_examples=30)
@given(
    data=st.lists(st.tuples(st.sampled_from("ab"), st.floats(-2, 2)), min_size=1, max_size=12),
    decay=st.floats(0, 1),
)
def test_each_role_and_game_has_its_own_baseline(data: list[tuple[str, float]], decay: float):
    """The advantages of a role are those it has alone, in any mixture with another one."""
    together = rae(*(seat(role, reward) for role, reward in data), decay=decay)[::2]
    for role in {role for role, _ in data}:
        alone = rae(*(seat(role, reward) for name, reward in data if name == role), decay=decay)
        mixed = [a for a, (name, _) in zip(together, data, strict=True) if name == role]
        assert alone[::2] == mixed
    games = [seat("a", 1.0, env_id="one"), seat("a", 1.0, env_id="two")]
    assert rae(*games) == [1.0] * 4
    keys = [RoleBaselines(0.9, 1.0, {"hands": n})._key(games[0]) for n in (1, 2)]
    assert keys[0] != keys[1]


def test_the_advantage_is_discounted_per_turn_that_is_left():
    assert rae(seat("a", 1.0, turns=3), gamma=0.5) == [0.25, 0.25, 0.5, 0.5, 1.0, 1.0]


# MARSHAL.


def test_marshal_sums_rewards_and_then_subtracts_the_mean_of_the_role():
    """The mean is over turns: how often a role wins counts, not only that it does."""

    def marshal(*episodes: Trajectory) -> list[float]:
        return RoleReturns()(Batch.of(episodes)).advantages[::2].tolist()

    lost = seat("a", 0.0), seat("a", 0.0)
    others = seat("b", 9.0), seat("c", 5.0)  # a third role has a mean of its own
    assert marshal(seat("a", 1.0, turns=2), *lost, *others) == pytest.approx(
        [0.5, 0.5, -0.5, -0.5, 0.0, 0.0]
    )
    staged = seat("a", 1.0, turns=2)
    staged.turns[0].reward = 2.0
    assert marshal(staged) == pytest.approx([1.0, -1.0])


@settings(deadline=None, max_examples=30)
@given(rng=generators)
def test_marshal_shifts_the_returns_of_each_role_to_mean_0(rng: np.random.Generator):
    played = random_batch(rng, min_tokens=1).trajectories
    batch = Batch.of([replace(each, role=str(rng.integers(3))) for each in played])
    found = RoleReturns(0.9)(batch).advantages[batch.token_offsets[:-1]]
    returns = np.concatenate(
        [[sum(0.9**k * r for k, r in enumerate(rewards[t:])) for t in range(len(rewards))]
         for rewards in ([turn.reward for turn in each.turns] for each in played)]
    )  # fmt: skip
    roles = np.array([each.role for each in batch.trajectories])[batch.turn_trajectory]
    for role in set(roles):
        mine = roles == role
        expected = returns[mine] - returns[mine].mean()
        np.testing.assert_allclose(found[mine], expected, atol=1e-5)


def test_marshal_is_whitened_after_the_means_of_roles_are_subtracted():
    """The distance between the means of two roles does not shrink the advantages."""
    batch = Batch.of([seat("a", 1.0), seat("a", 0.0), seat("b", 11.0), seat("b", 10.0)])
    credit = normalize_advantages(RoleReturns()(batch), batch, "batch")
    assert credit.advantages[::2] == pytest.approx([1, -1, 1, -1], abs=1e-5)


@settings(deadline=None, max_examples=30)
@given(rng=generators)
def test_the_credit_of_marshal_does_not_depend_on_the_tokens_of_turns(rng: np.random.Generator):
    """Rewards are those of turns. The authors whiten them, so that each token has one."""
    played = random_batch(rng, min_tokens=1).trajectories
    batch = Batch.of([replace(each, role="ab"[i % 2]) for i, each in enumerate(played)])
    rewards = [[turn.reward for turn in each.turns] for each in batch.trajectories]
    single = [
        replace(trajectory([1] * len(some), some), role=each.role)
        for some, each in zip(rewards, batch.trajectories, strict=True)
    ]
    found, expected = RoleReturns()(batch), RoleReturns()(Batch.of(single)).advantages
    np.testing.assert_allclose(found.advantages, expected[batch.token_turn], atol=1e-6)
    whitened = normalize_advantages(found, batch, "batch").advantages
    first = whitened[batch.token_offsets[:-1]]
    assert np.array_equal(whitened, first[batch.token_turn])
    nothing = RoleReturns()(batch.with_rewards(np.zeros_like(batch.rewards)))
    assert not nothing.advantages.any()


# Dr. MAS.


def test_an_agent_that_acts_five_times_counts_five_times_or_once():
    episodes = [seat("a", 1.0, turns=5), seat("a", 0.0, turns=1), seat("b", 100.0), seat("b", 0.0)]
    batch = Batch.of(episodes)
    for statistics, mean in (("turns", 5 / 6), ("trajectories", 1 / 2)):
        credit = GroupBaseline(statistics=statistics)(batch)  # type: ignore[arg-type]
        assert credit.advantages[[0, 10]] == pytest.approx([1 - mean, -mean])
        assert credit.advantages[[12, 14]] == pytest.approx([50, -50])  # a group of its own


def test_dr_mas_is_normalisation_over_turns_in_each_group():
    rng = np.random.default_rng(0)
    episodes = [seat("ab"[i % 2], rng.normal(), turns=1 + i % 3) for i in range(12)]
    batch = Batch.of(episodes)
    returns = GroupBaseline()(batch)
    module = recipes.load("dr_mas")
    own = module.build(module.Config()).signal.assign(batch, None)
    other = normalize_advantages(returns, batch, "group", "turns")
    scale = own.advantages / other.advantages
    for agent in range(2):  # n - 1 in place of n
        assert np.ptp(scale[np.repeat(batch.groups[batch.turn_trajectory], 2) == agent]) < 1e-4
