from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.errors import ConfigError
from agentgym.registration.making import make_env
from agentgym.trainers.data.batch import Batch, Values
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.policy.candidates import sampling_logprobs
from agentgym.trainers.recipes import lookahead
from agentgym.trainers.recipes.lookahead import Look, Lookahead, Tried
from agentgym.trainers.rollout.branches import samples_of
from agentgym.trainers.rollout.episode import EpisodeSpec
from agentgym.trainers.trainer import Trainer

GAMMA, LEAST = 0.9, 0.05


def make_trainer(folder: str, **changes: Any) -> Trainer:
    config = lookahead.Config.of(**{
        "env_id": "TextNav-Random-v0", "model": "nano", "context": "current", "temperature": 3.0,
        "iterations": 0, "eval_episodes": 0, "gamma": GAMMA, "least_probability": LEAST,
        "device": "cpu", "quiet": True, "run_dir": folder,
    } | changes)  # fmt: skip
    trainer = Trainer("lookahead", config, lookahead.build(config))
    trainer.run()  # makes the hooks
    return trainer


@pytest.fixture(scope="module")
def trainer(tmp_path_factory: pytest.TempPathFactory) -> Trainer:
    return make_trainer(str(tmp_path_factory.mktemp("run")))


def value_of(observation: str) -> float:
    """Any function of a state that tells neighbours apart."""
    return sum(map(ord, observation)) % 7 / 7


class ByLength:
    """A critic that knows `value_of`."""

    def last_values(self, batch: Batch) -> np.ndarray:
        ends = [
            0.0 if t.bootstrap is None else value_of(t.final_observation)
            for t in batch.trajectories
        ]
        return np.array(ends, np.float32)

    def evaluate(self, batch: Batch) -> Values:
        turns = [value_of(turn.observation) for turn in batch.turns]
        return Values(None, np.array(turns, np.float32), self.last_values(batch))


def outcome(env: Any, played: Trajectory, n: int, action: str) -> float:
    """Reward and discounted value after an action in place of the one of turn n."""
    observation, _ = env.reset(seed=played.seed, options={"task": played.task})
    reward = terminated = 0.0
    for text in (*(turn.action for turn in played.turns[:n]), action):
        observation, reward, terminated, *_ = env.step(text)
    return float(reward) + (0.0 if terminated else GAMMA * value_of(observation))


def test_a_value_is_the_mean_outcome_of_the_actions_that_begin_with_the_tokens_before(
    trainer: Trainer, monkeypatch: pytest.MonkeyPatch
):
    hooks, policy = trainer.hooks, trainer.policy
    assert isinstance(hooks, Lookahead)
    critic = ByLength()
    monkeypatch.setattr(trainer, "own_critic", critic)
    specs = [EpisodeSpec(f"train/{i // 2}", i // 2, (0, i), max_turns=4) for i in range(6)]
    batch = Batch.to_learn(hooks.on_rollout_end(trainer.play(specs), 0, np.random.default_rng(0)))
    found = hooks.on_values(batch, critic.evaluate(batch))
    assert found.tokens is not None
    env, tried, several = make_env("TextNav-Random-v0", max_turns=4), set[Any](), 0
    for m, turn in enumerate(batch.turns):
        played = batch.trajectories[batch.turn_trajectory[m]]
        n = m - int(batch.turn_offsets[batch.turn_trajectory[m]])
        prompt = played.segments[turn.segment].tokens[: turn.start]
        [logprobs] = sampling_logprobs(
            policy, [prompt], [turn.admissible], trainer.config.sampling()
        )
        likely = {
            text: np.exp(each)
            for text, each in zip(turn.admissible, logprobs, strict=True)
            if np.exp(each) >= LEAST or text == turn.action
        }
        several += len(likely) > 1
        values = {text: outcome(env, played, n, text) for text in likely}
        before = played.seed, *(each.action for each in played.turns[:n])
        tried |= {(*before, text) for text in likely}
        own = policy.encode_action(turn.action)
        for j in range(len(own)):
            begin = [text for text in likely if policy.encode_action(text)[:j] == own[:j]]
            weights = np.array([likely[text] for text in begin], np.float64)
            expected = weights @ [values[text] for text in begin] / weights.sum()
            assert found.tokens[batch.token_offsets[m] + j] == pytest.approx(expected, abs=1e-5)
        assert found.turns[m] == found.tokens[batch.token_offsets[m]]
    assert several > len(batch.turns) / 2
    taken = {
        (t.seed, *(turn.action for turn in t.turns[: n + 1]))
        for t in batch.trajectories
        for n in range(len(t.turns))
    }
    assert hooks.env_steps == len(tried - taken) > 0  # each outcome once in a group


@settings(deadline=None)
@given(
    st.lists(
        st.lists(st.integers(0, 2), min_size=1, max_size=5).map(lambda ids: (*ids, 9)),
        min_size=1,
        max_size=6,
        unique=True,
    ),
    st.integers(0, 2**32 - 1),
)
def test_shares_are_the_probabilities_given_the_first_tokens(
    tokens: Sequence[tuple[int, ...]], seed: int
):
    probability = np.random.default_rng(seed).dirichlet(np.ones(len(tokens)))
    tried = Tried.of([((), str(i)) for i in range(len(tokens))], tokens, probability, whole=False)
    assert tried.shares.shape == (len(tokens[0]) + 1, len(tokens))
    for j, shares in enumerate(tried.shares):
        begins = np.array([each[:j] == tokens[0][:j] for each in tokens])
        assert shares == pytest.approx(probability * begins / probability[begins].sum())
    assert tried.shares[-1].tolist() == [1.0, *[0.0] * (len(tokens) - 1)]
    whole = Tried.of(tried.outcomes, tokens, probability, whole=True).shares
    assert whole[0] == pytest.approx(tried.shares[0])
    assert (whole[1:] == tried.shares[-1]).all()  # the first token decides


def test_credit_is_that_of_the_tokens_and_targets_are_those_of_the_turns(trainer: Trainer):
    assign = lookahead.build(lookahead.Config.of(env_id="TextNav-Random-v0")).estimator
    assert assign is not None
    batch = Batch.of(trainer.play([EpisodeSpec("train/0", 0, (1,))]))
    rng = np.random.default_rng(0)
    turns = rng.normal(size=batch.num_turns).astype(np.float32)
    tokens = rng.normal(size=batch.num_tokens).astype(np.float32)
    tokens[batch.token_offsets[:-1]] = turns
    plain = assign(batch, Values(None, turns, np.zeros(1, np.float32)))
    credit = assign(batch, Values(tokens, turns, np.zeros(1, np.float32)))
    assert plain.targets is not None
    assert credit.targets == pytest.approx(plain.targets)
    inside = np.diff(tokens)
    for begin, stop in pairwise(batch.token_offsets):
        assert credit.advantages[begin : stop - 1] == pytest.approx(inside[begin : stop - 1])


@pytest.mark.parametrize("turn_limit", ["truncate", "terminate"])
def test_a_look_ends_in_a_state_to_value(turn_limit: str, tmp_path_factory: Any):
    run = make_trainer(str(tmp_path_factory.mktemp("run")), turn_limit=turn_limit)
    [played] = run.play([EpisodeSpec("train/0", 0, (0,))])
    assert len(played.turns) > 2
    looks = run.play([
        Look("train/0", 0, (1,), samples_of(played, 2)),
        Look("train/0", 0, (1,), samples_of(played, 2), max_turns=2),
        Look("train/0", 0, (1,), samples_of(played, len(played.turns))),
    ])  # fmt: skip
    assert [len(each.turns) for each in looks] == [2, 2, len(played.turns)]
    assert looks[0].truncated and looks[0].final_observation == played.turns[2].observation
    assert looks[1].terminated == (turn_limit == "terminate")
    assert looks[2].terminated == played.terminated
    assert run.own_critic is not None
    batch = Batch.of(looks)
    ends = run.own_critic.last_values(batch)
    assert ends == pytest.approx(run.own_critic.evaluate(batch).bootstrap, abs=1e-6)
    assert ends[0] == pytest.approx(run.own_critic.evaluate(Batch.of([played])).turns[2], abs=1e-5)
    assert [each.bootstrap is None for each in looks] == [each.terminated for each in looks]


def test_turns_without_listed_actions_keep_the_value_of_the_critic(
    trainer: Trainer, monkeypatch: pytest.MonkeyPatch
):
    hooks = trainer.hooks
    assert isinstance(hooks, Lookahead)
    critic = ByLength()
    monkeypatch.setattr(trainer, "own_critic", critic)
    played = trainer.play([EpisodeSpec("train/0", 0, (2,))])
    played[0].turns = [replace(turn, admissible=()) for turn in played[0].turns]
    batch = Batch.to_learn(hooks.on_rollout_end(played, 0, np.random.default_rng(0)))
    values = critic.evaluate(batch)
    found = hooks.on_values(batch, values)
    assert found.tokens is not None
    assert (found.turns == values.turns).all() and hooks.env_steps == 0
    assert (found.tokens == np.repeat(values.turns, np.diff(batch.token_offsets))).all()


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"constrain": False}, "lookahead tries admissible actions: set constrain"),
        ({"critic_backbone": "shared"}, "lookahead has no critic_backbone"),
        ({"shape_progress": 0.5, "gamma": 1.0}, "lookahead has no shape_progress"),
        ({"kl_in": "reward", "kl_coef": 0.1}, "assigns no credit"),
        ({"least_probability": 2.0}, "least_probability"),
    ],
)
def test_wrong_settings_are_refused(setting: dict[str, Any], message: str):
    with pytest.raises(ConfigError, match=message):
        lookahead.Config.of(env_id="TextNav-Random-v0", **setting)


def test_a_model_without_trees_is_refused(trainer: Trainer, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(trainer.policy, "blocks", False)
    with pytest.raises(ConfigError, match="cannot read listed actions as a tree"):
        Lookahead(trainer, least=0.1, gamma=1.0)
