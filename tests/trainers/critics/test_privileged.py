"""A critic that reads the observations of all agents or the hidden state, beside a policy."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.envs.numbers.number_line import NumberLine
from agentgym.errors import ConfigError
from agentgym.registration.making import make_env
from agentgym.trainers.api import make_trainer
from agentgym.trainers.critics.heads import TurnValueHead
from agentgym.trainers.critics.privileged import PrivilegedView, StateView
from agentgym.trainers.critics.value_model import ValueModel
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.packing import pack, unpack
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy.sampling import Sample, Sampling
from agentgym.trainers.policy.tiny import tiny_policy
from agentgym.trainers.policy_agent.agent import make_context
from agentgym.trainers.rollout.collector import collect
from agentgym.trainers.rollout.context import ContextSettings
from agentgym.trainers.rollout.env_pool import EnvPool
from agentgym.trainers.rollout.episode import EpisodeSpec
from agentgym.trainers.rollout.seats import GameSpec
from agentgym.trainers.run.logger import read_metrics
from agentgym.trainers.trainer import Trainer
from agentgym.trainers.update.metrics import explained_variance
from agentgym.wrappers import PrivilegedText

SEATS = (("player_0", ""), ("player_1", ""))
SMALL: dict[str, Any] = {
    "env_id": "KuhnPoker-v0", "env_kwargs": {"hands": 2}, "opponents": "mirror",
    "context": "current", "instructions": False, "constrain": True, "iterations": 2,
    "episodes_per_iteration": 8, "num_envs": 8, "epochs": 1, "minibatches": 1,
    "lr": 1e-3, "critic_lr": 1e-3, "eval_episodes": 0, "device": "cpu", "threads": 1,
    "quiet": True, "log_with": (), "critic_backbone": "separate",
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    tiny_policy("KuhnPoker-v0", size="nano", folder=folder, episodes=16)
    return folder


@pytest.fixture(scope="module")
def policy(folder: Path) -> Policy:
    return Policy.load(folder)


@pytest.fixture(autouse=True)
def quick(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SMALL, "model", str(folder))
    monkeypatch.setattr("agentgym.trainers.trainer.conclude", lambda *_, **__: [])


class Bold:
    """Bets and calls with every card, so that the cards alone decide."""

    def __init__(self, policy: Policy):
        self.policy = policy

    def __getattr__(self, name: str) -> Any:
        return getattr(self.policy, name)

    def act(self, requests: Any, *_: Any) -> list[Sample]:
        found = []
        for request in requests:
            [text] = {"bet", "call"} & set(request.candidates)
            tokens = np.array(self.policy.encode_action(text), np.int32)
            found.append(Sample(tokens, np.zeros(len(tokens), np.float32), None, text, True))
        return found


def play(
    policy: Any, count: int, *, central: bool, limit: int | None = None, **context: Any
) -> list[Trajectory]:
    specs = [
        GameSpec(f"train/{i}", i, (7, i), max_turns=limit, seats=SEATS, central=central)
        for i in range(count)
    ]
    builder = make_context(policy, ContextSettings(**context))
    with EnvPool(lambda: make_env("KuhnPoker-v0", hands=1), 8) as pool:
        return collect(policy, pool, specs, builder, Sampling(), constrain=True)


@pytest.mark.parametrize("mode", ["current", "full"])
def test_the_policy_never_reads_what_the_critic_does(policy: Policy, mode: Any):
    plain, recorded = (play(policy, 8, central=central, mode=mode) for central in (False, True))
    assert all(turn.privileged for t in recorded for turn in t.turns)
    assert [pack(blank(t)) for t in recorded] == [pack(t) for t in plain]
    assert [pack(unpack(pack(t))) for t in recorded] == [pack(t) for t in recorded]


def blank(trajectory: Trajectory) -> Trajectory:
    turns = [replace(turn, privileged="") for turn in trajectory.turns]
    return replace(trajectory, turns=turns, final_privileged="")


class Secret(NumberLine):
    """A number line with any hidden text."""

    text = ""

    def privileged_text(self) -> str:
        return f"{self.text}{self.state.position}"


@settings(max_examples=6, deadline=None)
@given(text=st.text(max_size=20), mode=st.sampled_from(["current", "full"]))
def test_the_policy_never_reads_the_hidden_state(policy: Policy, text: str, mode: Any):
    found = []
    for wrap in (lambda env: env, PrivilegedText):
        with EnvPool(lambda wrap=wrap: wrap(Secret(size=4, max_turns=3)), 4) as pool:
            specs = [EpisodeSpec(f"train/{i}", i, (i,)) for i in (0, 1)]
            Secret.text = text
            context = make_context(policy, ContextSettings(mode, instructions=False))
            found.append(collect(policy, pool, specs, context, Sampling(), constrain=True))
    plain, recorded = found
    assert [pack(blank(t)) for t in recorded] == [pack(t) for t in plain]
    for trajectory in recorded:
        texts = [turn.privileged for turn in trajectory.turns]
        assert all(each[:-1] == text for each in [*texts, trajectory.final_privileged])
        assert pack(unpack(pack(trajectory))) == pack(trajectory)


@pytest.mark.parametrize("limit", [None, 40])
@pytest.mark.parametrize("mode", ["current", "full"])
def test_the_hidden_state_can_replace_the_prompt(policy: Policy, mode: Any, limit: int | None):
    with EnvPool(lambda: PrivilegedText(NumberLine(size=8, max_turns=3)), 4) as pool:
        specs = [EpisodeSpec(f"train/{i}", i, (i,)) for i in range(4)]
        context = make_context(policy, ContextSettings(mode, instructions=False))
        batch = Batch.of(collect(policy, pool, specs, context, Sampling(), constrain=True))
    context = make_context(policy, ContextSettings(mode, max_tokens=limit))
    seen = StateView(context)(batch)
    for mine, read in zip(batch.trajectories, seen.trajectories, strict=True):
        texts = [turn.privileged for turn in mine.turns]
        for m, (turn, moved) in enumerate(zip(mine.turns, read.turns, strict=True)):
            tokens, shorter = (
                t.segments[each.segment].tokens for t, each in ((mine, turn), (read, moved))
            )
            assert np.array_equal(shorter[moved.start :], tokens[turn.start : turn.stop])
            assert moved.stop == len(shorter) and (limit is None or len(shorter) <= limit)
            text = policy.decode(shorter[: moved.start].tolist()).rstrip()
            assert f"Turn {m + 1}. {texts[m]}".startswith(text)
            assert limit or text.endswith(texts[m])
        assert (read.bootstrap is None) == (mine.bootstrap is None)
        if read.bootstrap is not None:
            text = policy.decode(read.segments[read.bootstrap].tokens.tolist()).rstrip()
            assert f"Turn {len(texts) + 1}. {mine.final_privileged}".startswith(text)
    assert any(t.bootstrap is not None for t in batch.trajectories)
    assert np.array_equal(seen.token_offsets, batch.token_offsets)


@pytest.mark.parametrize("short", [False, True])
@pytest.mark.parametrize("mode", ["current", "full"])
def test_the_others_observations_stand_between_prompt_and_action(
    policy: Policy, mode: Any, short: bool
):
    batch = Batch.of(play(policy, 16, central=True, mode=mode, limit=1))
    lengths = [len(s.tokens) for t in batch.trajectories for s in t.segments]
    limit = max(lengths) + 6 if short else None
    context = make_context(policy, ContextSettings(mode, max_tokens=limit))
    seen = PrivilegedView(context)(batch)
    cut = 0
    for mine, read in zip(batch.trajectories, seen.trajectories, strict=True):
        for turn, moved in zip(mine.turns, read.turns, strict=True):
            tokens, longer = (t.segments[turn.segment].tokens for t in (mine, read))
            action = slice(moved.start, moved.stop)
            assert np.array_equal(longer[action], tokens[turn.start : turn.stop])
            assert limit is None or len(longer) <= limit
            text = policy.decode(longer[: moved.start].tolist())
            cut += turn.privileged not in text
            if mode == "current":
                own = policy.decode(tokens[: turn.start].tolist())
                assert text.rstrip() == own + turn.privileged or short
        if mine.bootstrap is not None:
            assert mine.final_privileged
            end = policy.decode(read.segments[mine.bootstrap].tokens.tolist())
            assert end.rstrip().endswith(mine.final_privileged) or short
    assert any(t.bootstrap is not None for t in batch.trajectories)
    assert bool(cut) == short
    assert np.array_equal(seen.token_offsets, batch.token_offsets)


@pytest.mark.slow
def test_it_explains_more_than_any_function_of_the_own_prompt(policy: Policy):
    """With the middle card, the other's card decides between +2 and -2."""
    batch = Batch.of(play(Bold(policy), 16, central=True, mode="current", instructions=False))
    returns = np.array([t.episode_return for t in batch.trajectories], np.float32)
    targets = returns[batch.turn_trajectory]
    seen = np.unique([turn.observation for turn in batch.turns], return_inverse=True)[1]
    means = np.bincount(seen, targets) / np.bincount(seen)
    best = explained_variance(means[seen].astype(np.float32), targets)
    critic = ValueModel(
        policy,
        TurnValueHead(policy.hidden_size, (32,)),
        lr=3e-3,
        epochs=12,
        batch_tokens=512,
        view=PrivilegedView(make_context(policy, ContextSettings("current", instructions=False))),
    )
    critic.fit(batch, targets, np.random.default_rng(0))
    assert 0.4 < best < 0.85 < explained_variance(critic.predict(batch), targets)


def run(recipe: str, folder: Path, **changes: Any) -> tuple[Trainer, list[dict[str, Any]]]:
    trainer = make_trainer(recipe, run_dir=str(folder), **SMALL | changes)
    trainer.run()
    rows = read_metrics(folder)
    return trainer, [{k: v for k, v in row.items() if "time/" not in k} for row in rows]


@pytest.mark.slow
@pytest.mark.parametrize("sees", ["all", "hidden", "state"])
def test_a_run_resumes_as_if_never_stopped_and_plays_as_with_another_critic(
    tmp_path: Path, sees: str
):
    alone = {"env_id": "NumberLine-v0", "env_kwargs": {"size": 4}, "opponents": "scripted"}
    game = {} if sees == "all" else alone
    _, whole = run("poad", tmp_path / "whole", critic_sees=sees, iterations=2, **game)
    run("poad", tmp_path / "parts", critic_sees=sees, iterations=1, **game)
    resume = {"iterations": 2, "resume": True, **game}
    _, resumed = run("poad", tmp_path / "parts", critic_sees=sees, **resume)
    assert resumed[-1] == whole[-1]
    _, own = run("poad", tmp_path / "own", iterations=1, **game)
    same = {k: v for k, v in whole[0].items() if k.startswith("rollout/")}
    assert same == {k: v for k, v in own[0].items() if k.startswith("rollout/")}
    assert own[0]["losses/value_loss"] != whole[0]["losses/value_loss"]


@pytest.mark.slow
def test_one_critic_reads_for_all_roles(tmp_path: Path):
    trainer, rows = run("turn", tmp_path, critic_sees="all", roles="separate")
    assert trainer.own_critic is not None
    assert all(part.module.critic is None for part in trainer.updaters.parts.values())
    assert rows[-1]["losses/value_loss"] < rows[-1]["losses/value_loss_first"]
    assert {"losses/player_0/kl", "losses/player_1/kl"} <= rows[-1].keys()


def test_a_critic_that_cannot_see_all_is_refused(tmp_path: Path):
    for changes in (
        {"critic_backbone": "shared"},
        {"opponents": "scripted"},
        {"env_id": "NumberLine-v0", "env_kwargs": {}, "opponents": "scripted"},
    ):
        with pytest.raises(ConfigError, match=r"critic_sees (= 'all', the|belongs to critic_b)"):
            run("turn", tmp_path / "run", critic_sees="all", **changes)


def test_a_critic_that_cannot_see_the_hidden_state_is_refused(tmp_path: Path):
    alone = {"env_id": "NumberLine-v0", "env_kwargs": {}, "opponents": "scripted"}
    for changes, message in (
        ({**alone, "critic_backbone": "shared"}, "belongs to critic_backbone separate"),
        ({}, "opponents to 'scripted'"),
        ({**alone, "env_id": "Arithmetic-v0"}, "Arithmetic .* WebShop-v0, .* TicTacToe-v0"),
    ):
        with pytest.raises(ConfigError, match=f"critic_sees .*{message}"):
            run("turn", tmp_path / "run", critic_sees="state", **changes)
