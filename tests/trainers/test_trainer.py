"""The parts together: what an update computes, and that agents play as rollouts do."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from accelerate import Accelerator

from agentgym.envs.numbers.number_line import NumberLine
from agentgym.errors import ConfigError
from agentgym.evaluation.runner import evaluate
from agentgym.trainers import train
from agentgym.trainers.callbacks import Callback
from agentgym.trainers.credit import two_clock
from agentgym.trainers.credit.normalize import normalize_advantages
from agentgym.trainers.critics.heads import TokenValueHead, TurnValueHead
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.imitation.demonstrations import demonstrate
from agentgym.trainers.policy.alternatives import find_alternatives
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy.sampling import Sample, Sampling
from agentgym.trainers.policy.tiny import tiny_policy
from agentgym.trainers.policy_agent import load_agent
from agentgym.trainers.policy_agent.agent import PolicyAgent, make_context
from agentgym.trainers.policy_agent.best_of import Majority
from agentgym.trainers.recipes import poad
from agentgym.trainers.rollout.collector import collect
from agentgym.trainers.rollout.context import ContextSettings
from agentgym.trainers.rollout.env_pool import EnvPool
from agentgym.trainers.rollout.episode import EpisodeSpec
from agentgym.trainers.run.setup import build_updater
from agentgym.trainers.update.updater import Updater

from ..helpers.short_of_memory import limit_memory

MODES = ("full", "window", "actions", "current")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Any:
    path = tmp_path_factory.mktemp("policy")
    tiny_policy("NumberLine-v0", size="nano", episodes=4, folder=path)
    return path


@pytest.fixture
def policy(folder) -> Policy:
    return Policy.load(folder)


def play(policy: Policy, n: int = 12, mode: Any = "current", constrain: bool = True, **kwargs: Any):
    context = make_context(policy, ContextSettings(mode))
    episodes = [EpisodeSpec(f"train/{i}", i, (0, i)) for i in range(n)]
    sampling = Sampling(max_new_tokens=4, **kwargs)
    with EnvPool(lambda: NumberLine(size=4, max_turns=4), 4) as pool:
        return collect(policy, pool, episodes, context, sampling, constrain=constrain)


def updater_of(policy: Policy, critic: Any = TokenValueHead, **settings: Any) -> Updater:
    head = critic(policy.hidden_size, (16,), generator=torch.Generator().manual_seed(0))
    config = poad.Config.of(epochs=1, minibatches=1, **settings)
    return build_updater(Accelerator(cpu=True), config, policy, head, None)


def one_update(updater: Updater, batch: Batch) -> dict[str, torch.Tensor]:
    forward = updater.evaluate_actions(batch, reference=False)
    reads = "turns" if isinstance(updater.module.critic, TurnValueHead) else "tokens"
    credit = two_clock.TwoClockGAE(reads=reads)(batch, forward.values)
    advantages = normalize_advantages(credit, batch)
    updater.update(batch, advantages, forward, 0)
    return {name: p.detach().clone() for name, p in updater.module.named_parameters()}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("num_envs", [1, 64])
def test_episodes_do_not_depend_on_their_neighbours(policy, mode, num_envs):
    context = make_context(policy, ContextSettings(mode))
    episodes = [EpisodeSpec(f"train/{i}", i, (0, i)) for i in range(12)]
    with EnvPool(lambda: NumberLine(size=4, max_turns=4), num_envs) as pool:
        other = collect(policy, pool, episodes, context, Sampling(max_new_tokens=4), constrain=True)
    for a, b in zip(play(policy, mode=mode), other, strict=True):
        assert [turn.action for turn in a.turns] == [turn.action for turn in b.turns]
        for x, y in zip(a.segments, b.segments, strict=True):
            assert x.tokens.tolist() == y.tokens.tolist()
        for s, t in zip(a.turns, b.turns, strict=True):
            np.testing.assert_allclose(s.logprobs, t.logprobs, atol=1e-5)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("constrain", [True, False])
def test_what_was_sampled_is_what_training_scores(policy, mode, constrain):
    batch = Batch.of(play(policy, mode=mode, constrain=constrain, temperature=0.7))
    updater = updater_of(policy, temperature=0.7)
    scored = updater.evaluate_actions(batch, reference=False).logprobs
    assert scored is not None
    np.testing.assert_allclose(scored, batch.logprobs, atol=1e-5)


@pytest.mark.parametrize("mode", MODES)
def test_a_truncated_episode_is_credited_with_the_value_of_its_last_observation(policy, mode):
    batch = Batch.of(play(policy, n=24, mode=mode))
    updater = updater_of(policy)
    assert set(batch.terminated.tolist()) == {True, False}
    values = updater.evaluate_actions(batch, reference=False).values
    assert values is not None
    cut = ~batch.terminated
    assert (values.bootstrap[cut] != 0).all()
    # lambda = 0: the target of an episode's last token is r + gamma * what follows.
    credit = two_clock.TwoClockGAE(lambda_turn=0.0)(batch, values)
    assert credit.targets is not None
    last_turn = batch.turn_offsets[1:] - 1
    targets = credit.targets[batch.token_offsets[last_turn + 1] - 1]
    expected = batch.rewards[last_turn] + 0.99 * np.where(cut, values.bootstrap, 0.0)
    np.testing.assert_allclose(targets, expected, rtol=1e-5)
    # The value of an observation is the same whether an action followed it or not.
    prompt = np.asarray(batch.trajectories[int(cut.argmax())].segments[-1].tokens)
    hidden = policy.model.model(input_ids=torch.tensor(prompt[None].astype(np.int64)))[0]
    assert updater.module.critic is not None
    alone = float(updater.module.critic(hidden[0, -1]).detach())
    assert alone == pytest.approx(float(values.bootstrap[cut.argmax()]), abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ratio", "critic"),
    [("token", TokenValueHead), ("turn", TurnValueHead), ("trajectory", TokenValueHead)],
)
def test_cutting_a_minibatch_to_fit_into_memory_changes_nothing(folder, ratio, critic):
    trajectories = play(Policy.load(folder))
    whole, cut = (
        one_update(
            updater_of(
                Policy.load(folder), critic, ratio=ratio, microbatch_tokens=size, entropy_coef=0.1
            ),
            Batch.of(trajectories),
        )
        for size in (100_000, 90)
    )
    for name, parameter in whole.items():
        torch.testing.assert_close(parameter, cut[name], atol=2e-5, rtol=0, msg=name)


@pytest.mark.parametrize("limit", [1, 400])
def test_microbatches_count_the_candidates_of_whole_actions(policy, limit):
    """They follow the segments of a pass as trees of tokens."""
    batch, fed = Batch.of(play(policy, mode="full", normalization="word")), []
    settings: dict[str, Any] = {"constrain": True, "normalization": "word"}
    policy.model.register_forward_pre_hook(
        lambda _, args, inputs: fed.append(inputs["input_ids"].shape), with_kwargs=True
    )
    one_update(updater_of(policy, microbatch_tokens=limit, **settings), batch)
    longest = max(width for _, width in fed)
    contexts = [len(each.segments[0].tokens) for each in batch.trajectories]
    if limit == 1:  # each row in a pass of its own, with at least two nodes per turn
        assert len(fed) == 2 * len(contexts)
        assert longest >= max(contexts) + 2 * min(len(each.turns) for each in batch.trajectories)
    assert all(rows * width <= max(limit, longest) for rows, width in fed)
    limit_memory(policy, 10, 10)
    with pytest.raises(torch.OutOfMemoryError) as caught:
        one_update(updater_of(policy, microbatch_tokens=1, **settings), batch)
    assert f"has {longest} tokens" in str(caught.value.__notes__)


def test_tokens_without_an_alternative_teach_nothing(policy):
    batch = Batch.of(play(policy))
    free = batch.free
    # "+" or "-", then the end: of each action only the first token is a choice.
    assert free.tolist() == [True, False] * batch.num_turns
    assert (batch.logprobs[~free] == 0).all()


def test_only_the_critic_learns_in_its_warm_up(policy):
    before = {name: p.detach().clone() for name, p in policy.named_parameters()}
    after = one_update(updater_of(policy, critic_warmup=1), Batch.of(play(policy)))
    for name, parameter in before.items():
        assert torch.equal(after[f"policy.{name}"], parameter)
    assert after["critic.mlp.0.weight"].abs().sum() > 0


@pytest.mark.parametrize("mode", MODES)
def test_an_agent_plays_as_the_policy_does_in_rollouts(policy, mode):
    rolled = play(policy, mode=mode, temperature=0.0)
    agent = PolicyAgent(
        policy, ContextSettings(mode), Sampling(0.0, max_new_tokens=4), constrain=True
    )
    tasks = [f"train/{i}" for i in range(12)]
    report = evaluate(lambda: NumberLine(size=4, max_turns=4), agent, tasks=tasks, num_envs=5)
    assert [e.turns for e in report.episodes] == [len(t.turns) for t in rolled]
    assert [e.reward for e in report.episodes] == [t.episode_return for t in rolled]


def test_an_agent_counts_the_prompts_that_exceed_its_context(policy):
    settings = ContextSettings("full", instructions=False, max_tokens=60)
    agent = PolicyAgent(policy, settings, Sampling(0.0, max_new_tokens=4), constrain=True)
    for turns, overflows in ((2, False), (30, True)):
        report = evaluate(lambda t=turns: NumberLine(size=1000, max_turns=t), agent, tasks=3)
        assert any(e.failure == "overflow" for e in report.episodes) == overflows
        for e in report.episodes:
            overflowed = "context_overflows" in e.costs and not e.success
            assert (e.failure == "overflow") == overflowed


def test_a_saved_policy_acts_the_same(policy, tmp_path):
    settings, sampling = ContextSettings("window", 2), Sampling(0.0, max_new_tokens=4)
    mine = PolicyAgent(policy, settings, sampling, constrain=True, name="mine")
    mine.save(tmp_path)
    tasks = [f"test/{i}" for i in range(8)]
    agents = [
        mine,
        load_agent(str(tmp_path)),
        f"policy:{tmp_path}",
    ]
    one, *others = [evaluate("NumberLine-v0", agent, tasks=tasks) for agent in agents]
    assert all(other == one for other in others)
    assert one.agent == "mine"


@pytest.mark.parametrize("mode", MODES)
def test_demonstrations_fit_where_the_policy_has_to(policy, mode):
    """No segment is longer than the limit, and an action is never cut."""
    settings = ContextSettings(mode, 2, instructions=False, max_tokens=60)
    context = make_context(policy, settings)
    with EnvPool(lambda: NumberLine(size=30, max_turns=30), 1) as pool:
        episodes = [EpisodeSpec(f"train/{i}", i, (i,)) for i in range(6)]
        shown = demonstrate(policy, pool, episodes, context, lambda _: 6)
    for trajectory in shown:
        assert all(len(segment.tokens) <= 60 for segment in trajectory.segments)
        assert all(turn.start + 6 <= 60 for turn in trajectory.turns)
    assert any(t.stats.overflow for t in shown) == (mode == "full")
    assert [t.success for t in shown] == [not t.stats.overflow for t in shown]


def test_a_small_share_of_demonstrations_is_one(tmp_path):
    settings: dict[str, Any] = dict(
        model="nano", context="current", bc_share=0.001, env_steps=20, bc_epochs=1, iterations=0,
        eval_episodes=0, quiet=True, device="cpu", threads=1, run_dir=str(tmp_path / "run"),
    )  # fmt: skip
    assert train("poad", **settings) == []


@pytest.mark.slow
@pytest.mark.parametrize(("iterations", "names"), [(0, ["imitation"]), (1, ["imitation", "poad"])])
def test_every_evaluation_is_reported_once(iterations, names, tmp_path, capsys):
    settings: dict[str, Any] = dict(
        model="nano", context="current", constrain=True, bc_demonstrations=2, bc_epochs=1,
        iterations=iterations, episodes_per_iteration=4, eval_episodes=2, quiet=True, device="cpu",
        threads=1, run_dir=str(tmp_path / "run"),
    )  # fmt: skip
    assert [report.agent for report in train("poad", **settings)] == names
    rows = re.findall(r"^ *imitation +\d", capsys.readouterr().out, re.MULTILINE)
    assert len(rows) == 1


class Longest(torch.nn.Module):
    """Prefers answers whose first token has a large id."""

    def predict(self, batch):
        spans = [t.segments[0].tokens[t.turns[0].start] for t in batch.trajectories]
        return np.array(spans, np.float32)


@pytest.mark.slow
def test_the_best_of_several_answers_is_said(policy, tmp_path):
    from agentgym.trainers.critics.value_model import action_model
    from agentgym.trainers.policy_agent.best_of import BestOf

    settings, sampling = ContextSettings("current"), Sampling(1.0, max_new_tokens=4)
    agent = PolicyAgent(policy, settings, sampling, constrain=True, name="mine")
    tasks = [f"test/{i}" for i in range(8)]
    signs = sorted(("+", "-"), key=lambda text: policy.encode(text)[0])

    def moves(agent):
        said = []
        act = agent.act

        def watched(views):
            said.extend(texts := act(views))
            return texts

        agent.act = watched
        evaluate("NumberLine-v0", agent, tasks=tasks)
        return said

    often = moves(BestOf(agent, Longest(), 8))  # type: ignore[arg-type]
    assert often.count(signs[1]) > 0.9 * len(often)
    assert 0 < moves(BestOf(agent, Longest(), 1)).count(signs[0])  # type: ignore[arg-type]

    judged = BestOf(agent, action_model(policy, seed=3), 4)
    judged.save(tmp_path)
    again = load_agent(str(tmp_path))
    assert isinstance(again, BestOf)
    assert evaluate("NumberLine-v0", again, tasks=tasks) == evaluate(
        "NumberLine-v0", judged, tasks=tasks
    )


def test_the_majority_of_several_answers_is_played(policy, tmp_path):
    settings = ContextSettings("current")
    agent = PolicyAgent(policy, settings, Sampling(0.0, max_new_tokens=4), constrain=True)
    agent.save(tmp_path)
    voting = load_agent(str(tmp_path), majority=25)
    assert isinstance(voting, Majority) and voting.proposing.temperature == 1
    sampled = [
        Sample(np.zeros(1, np.int32), np.zeros(1, np.float32), None, text, True)
        for text in ("a", "b", "b", "c", "c", "d")
    ]
    assert Majority(agent, 3)._select([], [], sampled) == [1, 0]  # of equal votes, the first
    report = evaluate("NumberLine-v0", voting, tasks=4)
    assert report.aggregate()["valid"].mean == 1
    with pytest.raises(ConfigError, match="majority must be at least 1"):
        load_agent(str(tmp_path), majority=0)


@pytest.mark.parametrize("mode", ["current", "full"])
@pytest.mark.parametrize("normalization", [None, "token"])
def test_probabilities_of_alternatives_are_those_sampled_from(policy, mode, normalization):
    options = {"temperature": 0.7, "normalization": normalization}
    sampling = Sampling(max_new_tokens=4, **options)
    batch = Batch.of(play(policy, mode=mode, **options))
    found = find_alternatives({"": policy}, batch, 5, sampling)
    assert found.keys() == set(range(int(batch.turn_offsets[5])))
    for m, pairs in found.items():
        turn = batch.turns[m]
        assert sorted(text for text, _ in pairs) == sorted(turn.admissible)
        assert sum(math.exp(x) for _, x in pairs) == pytest.approx(1, abs=1e-3)
        assert dict(pairs)[turn.action] == pytest.approx(float(turn.logprobs.sum()), abs=1e-3)
    assert find_alternatives({"": policy}, batch, 5, replace(sampling, temperature=0.0)) == {}
    assert find_alternatives({"": policy}, batch, 0, sampling) == {}


class Echo(gymnasium.Env[str, str]):
    """Repeat a word: a plain Gymnasium environment with text spaces."""

    observation_space = action_space = gymnasium.spaces.Text(100)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.word = ("red", "blue")[int(self.np_random.integers(2))]
        return self.word, {"admissible": ("red", "blue")}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        return "over", float(action == self.word), True, False, {}

    def expert(self) -> str:
        return self.word


def test_a_plain_gymnasium_environment_is_trained_in(tmp_path):
    gymnasium.register("Echo-v0", entry_point=lambda **kwargs: Echo(**kwargs))
    try:
        config = poad.Config.of(
            env_id="Echo-v0", model="nano", context="current", constrain=True,
            bc_demonstrations=16, bc_epochs=8, bc_lr=3e-3, iterations=1,
            episodes_per_iteration=8, eval_episodes=16, quiet=True, device="cpu", threads=1,
            run_dir=str(tmp_path / "run"),
        )  # fmt: skip
        report = train("poad", config)[-1]
    finally:
        del gymnasium.registry["Echo-v0"]
    assert (report.env, len(report.episodes)) == ("Echo-v0", 16)
    assert {episode.task.partition("/")[0] for episode in report.episodes} == {"test"}
    lines = (tmp_path / "run" / "trajectories.jsonl").read_text().splitlines()
    for turn in json.loads(lines[0])["turns"]:
        assert sorted(text for text, _ in turn["alternatives"]) == ["blue", "red"]
        assert turn["observation"] in turn["prompt"]["text"]


class Truncated(Callback):
    """Collects the truncated trajectories of training."""

    def __init__(self) -> None:
        self.found: list[Trajectory] = []

    def on_rollout_end(self, trainer: Any, trajectories: Sequence[Trajectory]) -> None:
        self.found += [each for each in trajectories if each.truncated]


@pytest.mark.parametrize(("recipe", "kept"), [("rloo", False), ("turn", True)])
def test_last_observations_are_kept_for_a_critic_only(recipe, kept, folder, tmp_path):
    truncated = Truncated()
    train(
        recipe, env_id="NumberLine-v0", env_kwargs={"max_turns": 2}, model=str(folder),
        context="current", constrain=True, iterations=1, episodes_per_iteration=8, eval_episodes=0,
        bc_demonstrations=0, quiet=True, run_dir=str(tmp_path / "run"), callbacks=[truncated],
    )  # fmt: skip
    assert truncated.found
    assert {each.bootstrap is not None for each in truncated.found} == {kept}
