"""Episodes from files train as those that the expert plays itself."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.cli.main import main
from agentgym.data.episode import RecordedEpisode, RecordedTurn
from agentgym.data.reading import read_episodes
from agentgym.envs.numbers.number_line import NumberLine
from agentgym.errors import ConfigError, DataError
from agentgym.registration import making
from agentgym.registration.making import make_env
from agentgym.trainers import train, trainer
from agentgym.trainers.api import make_trainer
from agentgym.trainers.callbacks import Callback
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.hooks.dataset import DataSet
from agentgym.trainers.imitation import demonstrations
from agentgym.trainers.imitation.behaviour_cloning import _Material
from agentgym.trainers.imitation.demonstrations import demonstrate, recorded, teach
from agentgym.trainers.policy_agent.agent import make_context
from agentgym.trainers.rollout.context import ContextSettings
from agentgym.trainers.rollout.env_pool import EnvPool
from agentgym.trainers.rollout.episode import EpisodeSpec
from agentgym.trainers.rollout.seats import GameSpec
from agentgym.trainers.run.logger import read_metrics
from agentgym.trainers.run.roles import load_policies

SIZE = ["--episodes", "12", "--env-kwargs", "size=6", "max_turns=4"]
ENV: dict[str, Any] = {"size": 6, "max_turns": 4}
RUN: dict[str, Any] = dict(
    model="nano", env_id="NumberLine-v0", env_kwargs=ENV, context="current", instructions=False,
    constrain=True, episodes_per_iteration=8, num_envs=8, iterations=1, eval_episodes=0,
    log_with=(), transcripts=4, device="cpu", threads=1, quiet=True,
)  # fmt: skip


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, Path]:
    """The same expert episodes in every format."""
    folder = tmp_path_factory.mktemp("export")
    found = {}
    for format in ("chat", "sharegpt", "own"):
        found[format] = folder / f"{format}.jsonl"
        words = ["NumberLine-v0", "--out", str(found[format]), "--format", format]
        assert main(["export", *words, *SIZE]) == 0
    return found


def tokens(some: list[Trajectory]) -> list[Any]:
    spans = [
        [(t.segment, t.start, t.stop, t.reward, t.weight) for t in each.turns] for each in some
    ]
    return [[s.tokens.tolist() for each in some for s in each.segments], spans]


@pytest.mark.parametrize("mode", ["full", "window", "actions", "current"])
@pytest.mark.parametrize("format", ["chat", "sharegpt", "own"])
def test_exported_episodes_have_the_tokens_of_demonstrations(make_policy, files, format, mode):
    episodes = read_episodes([files[format]])
    policy = make_policy()
    context = make_context(policy, ContextSettings(mode, 2))
    specs = [EpisodeSpec(each.task, each.seed, (i,)) for i, each in enumerate(episodes)]
    constrain = format == "own"  # the other formats hold no admissible actions
    with EnvPool(lambda: make_env("NumberLine-v0", **ENV), 1) as pool:
        played = demonstrate(policy, pool, specs, context, lambda _: 6, constrain)
    read = recorded(policy, episodes, context, lambda _: 6, constrain)
    assert tokens(read) == tokens(played) and len(read) == 12
    assert [t.success for t in read] == [t.success for t in played]
    for a, b in zip(Batch.of(read).turns, Batch.of(played).turns, strict=True):
        assert constrain == (a.support is not None)
        assert (
            a.support is None or b.support is None or np.array_equal(a.support.ids, b.support.ids)
        )


def test_the_scripted_expert_plays_without_a_view(make_policy, monkeypatch):
    policy = make_policy()
    monkeypatch.setattr(demonstrations, "View", None)
    with EnvPool(lambda: make_env("NumberLine-v0", **ENV), 1) as pool:
        context = make_context(policy, ContextSettings("current"))
        [taught] = teach(policy, pool, [EpisodeSpec("train/5", 3, (0,))], context, lambda _: 6)
    assert taught.trajectory.success and not taught.costs


class Endless(NumberLine):
    """Its expert stands still."""

    def expert(self) -> str:
        return "?"


@pytest.mark.parametrize(("limit", "turns"), [(None, 12), (20, 20), (4, 4)])
def test_an_expert_that_never_arrives_stops(make_policy, monkeypatch, limit, turns):
    monkeypatch.setattr(demonstrations, "MANY_TURNS", 12)
    monkeypatch.setattr(making, "MANY_TURNS", 12)
    policy = make_policy()
    with EnvPool(lambda: Endless(size=6, max_turns=limit), 1) as pool:
        context = make_context(policy, ContextSettings("current"))
        with pytest.warns(UserWarning, match="set a turn limit") if turns >= 12 else nullcontext():
            [taught] = teach(policy, pool, [EpisodeSpec("train/5", 3, (0,))], context, lambda _: 6)
    assert len(taught.trajectory.turns) == turns and taught.trajectory.stats.at_limit


def test_an_expert_may_take_the_turns_of_a_time_limit(make_policy, monkeypatch):
    monkeypatch.setattr(demonstrations, "MANY_TURNS", 2)
    policy, id = make_policy(), "AgentGym/NumberLine-v0"
    with EnvPool(lambda: gymnasium.make(id, max_turns=None, max_episode_steps=50), 1) as pool:
        context = make_context(policy, ContextSettings("current"))
        [taught] = teach(policy, pool, [EpisodeSpec("train/5", 3, (0,))], context, lambda _: 6)
    assert taught.trajectory.success and len(taught.trajectory.turns) > 2


def test_a_game_of_experts_without_an_end_stops(make_policy, monkeypatch):
    monkeypatch.setattr(demonstrations, "MANY_TURNS", 2)
    policy = make_policy()
    seats = (("player_0", ""), ("player_1", ""))
    with EnvPool(lambda: make_env("TicTacToe-v0"), 1) as pool:
        context = make_context(policy, ContextSettings("current"))
        found = teach(
            policy, pool, [GameSpec("opening/", 3, (0,), seats=seats)], context, lambda _: 6
        )
    assert [len(each.trajectory.turns) for each in found] == [2, 2]
    assert all(each.trajectory.stats.at_limit for each in found)


@pytest.mark.parametrize("format", ["chat", "sharegpt", "own"])
def test_cloning_a_file_has_the_losses_of_cloning_the_expert(format, files, tmp_path, monkeypatch):
    """Bit by bit, in the weights that follow."""
    few: dict[str, Any] = dict(
        bc_epochs=2, iterations=0, bc_lm_coef=0.1 if format == "chat" else 0.0
    )
    starts = [(each.task, each.seed) for each in read_episodes([files[format]])]
    name = "agentgym.trainers.imitation.behaviour_cloning.draw_tasks"
    with monkeypatch.context() as context:
        context.setattr(name, lambda *_: starts)
        played = make_trainer(
            "grpo", **RUN | few, bc_demonstrations=12, group_size=2, run_dir=str(tmp_path / "a")
        )
        played.run()
    read = make_trainer(
        "grpo", **RUN | few, data=(str(files[format]),), group_size=2, run_dir=str(tmp_path / "b")
    )
    read.run()
    for a, b in zip(played.policy.parameters(), read.policy.parameters(), strict=True):
        assert np.array_equal(a.detach().numpy(), b.detach().numpy())


@pytest.mark.parametrize("recipe", ["bc", "ilql"])
def test_offline_recipes_learn_from_a_file_alone(recipe, files, tmp_path):
    settings: dict[str, Any] = RUN | {"dataset_episodes": 0, "data": (str(files["chat"]),)}
    train(recipe, **settings, run_dir=str(tmp_path / "run"))
    [row] = [row for row in read_metrics(tmp_path / "run") if "rollout/return" in row]
    assert row["env_steps"] == 0 and row["rollout/return"] > 0


def test_data_without_a_readable_verdict_is_left_out(files, tmp_path):
    rows = [json.loads(line) for line in files["chat"].read_text().splitlines()]
    known, unread = tmp_path / "known.jsonl", tmp_path / "unread.jsonl"
    known.write_text("".join(json.dumps(row) + "\n" for row in rows[4:]))
    marked = [*({**row, "unjudged": True} for row in rows[:4]), *rows[4:]]
    unread.write_text("".join(json.dumps(row) + "\n" for row in marked))
    settings: dict[str, Any] = RUN | {"dataset_episodes": 0, "bc_demonstrations": 0}
    train("ilql", **settings, data=(str(known),), run_dir=str(tmp_path / "a"))
    with pytest.warns(RuntimeWarning, match="4 of 12 episodes are left out"):
        train("ilql", **settings, data=(str(unread),), run_dir=str(tmp_path / "b"))
    one, other = (
        [v for row in read_metrics(tmp_path / name) for k, v in row.items() if "losses" in k]
        for name in "ab"
    )
    assert one and one == other


def test_critics_refuse_data_without_rewards(files, tmp_path):
    rows = [json.loads(line) for line in files["chat"].read_text().splitlines()]
    (tmp_path / "plain.jsonl").write_text(
        "".join(json.dumps({"messages": row["messages"]}) + "\n" for row in rows)
    )
    settings: dict[str, Any] = RUN | {
        "dataset_episodes": 0,
        "data": (str(tmp_path / "plain.jsonl"),),
    }
    with pytest.raises(DataError, match="12 of 12 episodes in the data have no rewards"):
        train("ilql", **settings, run_dir=str(tmp_path / "a"))
    train("bc", **settings, run_dir=str(tmp_path / "b"))


@pytest.mark.parametrize("resume", [False, True])
def test_files_are_read_whole_before_the_first_evaluation(
    resume: bool, files, tmp_path, monkeypatch
):
    """A line without a meaning before any model, and what only a recipe needs before it plays."""

    class Counts(Callback):
        def on_evaluation_end(self, trainer: Any, report: Any) -> None:
            evaluations.append(report)

    evaluations: list[Any] = []
    first = files["chat"].read_text().splitlines()[0]
    broken, plain, tasks = tmp_path / "broken.jsonl", tmp_path / "plain.jsonl", tmp_path / "t.json"
    broken.write_text(f"{first}\n{{}}\n")
    plain.write_text(json.dumps({"messages": json.loads(first)["messages"]}) + "\n")
    tasks.write_text('["no such task"]')
    settings: dict[str, Any] = RUN | {"eval_episodes": 2, "callbacks": [Counts()]}
    settings["resume"] = resume  # a job that is queued again says so from the start
    models: list[Any] = []
    monkeypatch.setattr(trainer, "load_policies", lambda *a: models.append(a) or load_policies(*a))
    cases: list[tuple[str, str, dict[str, Any]]] = [
        ("data", "broken.jsonl, line 2: not an episode", {"data": (str(broken),)}),
        ("list", "must hold training tasks", {"curriculum": str(tasks)}),
        ("rewards", "1 of 1 episodes in the data have no rewards", {"data": (str(plain),)}),
    ]
    for name, message, changes in cases:
        folder = tmp_path / name
        recipe = "turn" if name == "list" else "ilql"
        with pytest.raises((ConfigError, DataError), match=message):
            train(recipe, **settings, **changes, run_dir=str(folder))
        assert not evaluations and bool(models) == (name == "rewards")
        assert folder.exists() == (name == "rewards" or (resume and name == "data"))
    train("bc", **settings, data=(str(plain),), run_dir=str(tmp_path / "bc"))
    assert len(evaluations) == 2


def test_a_run_is_exported_and_learned_from(files, tmp_path):
    settings: dict[str, Any] = RUN | {
        "dataset_episodes": 0,
        "data": (str(files["own"]),),
        "instructions": True,
    }
    train("bc", **settings, run_dir=str(tmp_path / "run"))
    settings["data"] = (str(tmp_path / "run"),)
    train("bc", **settings, run_dir=str(tmp_path / "again"))
    out = tmp_path / "run.jsonl"
    assert main(["export", str(tmp_path / "run"), "--out", str(out), "--format", "own"]) == 0
    exported = read_episodes([out])
    known = {each.task: each for each in read_episodes([files["own"]])}
    assert len(exported) == 4
    for each in exported:
        assert each.turns[0].action == known[each.task].turns[0].action
        assert each.instructions == known[each.task].instructions


@settings(max_examples=10)
@given(
    lengths=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    masks=st.lists(st.booleans(), min_size=16, max_size=16),
    observations=st.booleans(),
)
def test_masked_steps_are_read_and_weigh_nothing(make_policy, lengths, masks, observations):
    flags = iter(masks)
    episodes = [
        RecordedEpisode(
            [RecordedTurn(f"room {i}", "go north", valid=next(flags)) for i in range(length)],
            "Play.",
        )
        for length in lengths
    ]
    policy = make_policy()
    context = make_context(policy, ContextSettings())
    found = recorded(policy, episodes, context, lambda _: 6)
    kept = recorded(policy, episodes, context, lambda _: 6, mask_invalid=False)
    assert tokens(found)[0] == tokens(kept)[0]
    valid = [turn.valid for each in episodes for turn in each.turns]
    batch = Batch.of(found)
    assert np.array_equal(batch.weights(), np.array(valid, np.float32)[batch.token_turn])
    assert Batch.of(kept).weights().all()
    material = _Material.of(found, observations)
    size = len(policy.encode_action("go north"))
    assert float(material.weight[material.action].sum()) == size * sum(valid)
    assert bool(material.weight[~material.action].all())


@pytest.mark.parametrize("share", [0.0, 0.25, 0.8])
def test_general_text_has_its_share_of_the_loss(share, files, tmp_path):
    text = tmp_path / "general.jsonl"
    text.write_text(json.dumps({"text": "The quick brown fox jumps over the lazy dog."}) + "\n")
    settings: dict[str, Any] = RUN | {"data": (str(files["chat"]),), "general_data": (str(text),)}
    trainer = make_trainer(
        "bc", **settings, general_share=share, run_dir=str(tmp_path / "run"), epochs=1
    )
    trainer.run()
    assert isinstance(trainer.hooks, DataSet)
    weights = {"data": 0.0, "AgentGym/NumberLine-v0": 0.0}
    for each in trainer.hooks.kept.since(0):
        weights[each.env_id] += sum(t.weight * (t.stop - t.start) for t in each.turns)
    assert weights["data"] / sum(weights.values()) == pytest.approx(share)


def test_an_episode_that_does_not_fit_is_left_out(make_policy):
    policy = make_policy()
    context = make_context(policy, ContextSettings("current", max_tokens=60))
    long = RecordedEpisode([RecordedTurn("room", "go " * 90)])
    short = RecordedEpisode([RecordedTurn("room", "go")])
    with pytest.warns(RuntimeWarning, match="1 of 2 episodes in the data are left out"):
        assert len(recorded(policy, [long, short], context, lambda _: 6)) == 1
    with pytest.raises(DataError, match="None of the 1 episodes"):
        recorded(policy, [long], context, lambda _: 6)


def test_an_episode_that_is_cut_by_the_context_is_counted(make_policy):
    policy = make_policy()
    turns = [RecordedTurn("a word or two", "north") for _ in range(20)]
    whole, cut = RecordedEpisode(turns[:1], "Play."), RecordedEpisode(turns, "Play.")
    context = make_context(policy, ContextSettings(max_tokens=64))
    with pytest.warns(RuntimeWarning, match="1 of 2 episodes in the data do not fit") as found:
        read = recorded(policy, [whole, cut], context, lambda _: 6)
    assert len(found) == 1 and len(read[0].turns) == 1 < len(read[1].turns) < 20
    recorded(policy, [whole], context, lambda _: 6)  # without a warning


def test_settings_of_data_exclude_those_of_the_expert(tmp_path):
    with pytest.raises(ConfigError, match="replace demonstrations"):
        make_trainer("grpo", **RUN, data=("x",), bc_demonstrations=2, run_dir=str(tmp_path / "a"))
    with pytest.raises(ConfigError, match="general_data belongs to cloned episodes"):
        make_trainer("grpo", **RUN, general_data=("x",), run_dir=str(tmp_path / "b"))
    with pytest.raises(ConfigError, match="ilql has no general_data"):
        make_trainer("ilql", **RUN, general_data=("x",), run_dir=str(tmp_path / "c"))
