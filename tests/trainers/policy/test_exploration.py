"""Epsilon-greedy exploration: the probabilities of actions, recorded and true, and its settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from agentgym.errors import ConfigError
from agentgym.tokens.trie import TokenTrie
from agentgym.trainers import make_trainer, recipes
from agentgym.trainers.cli.train import read_config
from agentgym.trainers.policy.candidates import sampling_logprobs
from agentgym.trainers.policy.sampling import Request, Sampling
from agentgym.trainers.rollout.branches import episodes_of
from agentgym.trainers.rollout.episode import EpisodeSpec
from agentgym.trainers.run.logger import read_metrics

CANDIDATES = ["go north", "go south", "go", "take red key", "take red ball", "wait"]


@pytest.fixture(scope="module")
def policy(make_policy: Any) -> Any:
    return make_policy()


@pytest.fixture(scope="module")
def prompt(policy: Any) -> np.ndarray:
    return np.array(policy.encode("a room>"), np.int32)


@pytest.mark.parametrize("options", [{}, {"normalization": "token"}, {"temperature": 0.7}])
@pytest.mark.parametrize("epsilon", [0.05, 0.9])
def test_an_action_has_the_probability_of_the_mixture(
    policy: Any, prompt: np.ndarray, options: dict[str, Any], epsilon: float
):
    """Also of actions with several tokens and common beginnings, which are sampled in steps."""
    [logprobs] = sampling_logprobs(policy, [prompt], [CANDIDATES], Sampling(**options))
    mixture = epsilon / len(CANDIDATES) + (1 - epsilon) * np.exp(logprobs)
    requests = [Request(prompt, np.random.default_rng(i), CANDIDATES) for i in range(150)]
    samples = policy.act(requests, Sampling(epsilon=epsilon, **options))
    for sample in samples:
        expected = mixture[CANDIDATES.index(sample.text)]
        assert np.exp(sample.logprobs.sum()) == pytest.approx(expected, rel=1e-4)
    shares = np.array([np.mean([s.text == text for s in samples]) for text in CANDIDATES])
    noise = np.sqrt(mixture * (1 - mixture) / len(samples))
    assert (np.abs(shares - mixture) < 4.5 * noise + 1 / len(samples)).all()


def test_probabilities_of_a_policy_that_is_certain(make_policy: Any):
    """At some nodes of the tree, all tokens have a probability below the smallest float32."""
    policy = make_policy()
    with torch.no_grad():
        policy.model.get_input_embeddings().weight.mul_(12)
    prompt = np.array(policy.encode("a room>"), np.int32)
    sampling = Sampling(temperature=0.05)
    [logprobs] = sampling_logprobs(policy, [prompt], [CANDIDATES], sampling)
    assert np.exp(logprobs.astype(np.float64)).sum() == pytest.approx(1.0, abs=1e-4)
    requests = [Request(prompt, np.random.default_rng(i), CANDIDATES) for i in range(4)]
    for sample in policy.act(requests, sampling):
        own = logprobs[CANDIDATES.index(sample.text)]
        assert sample.logprobs.sum() == pytest.approx(own, rel=1e-4, abs=1e-3)


def test_free_actions_do_not_explore(policy: Any, prompt: np.ndarray):
    requests = [[Request(prompt, np.random.default_rng(i)) for i in range(4)] for _ in range(2)]
    plain, exploring = map(policy.act, requests, (Sampling(), Sampling(epsilon=0.5)))
    assert [s.text for s in plain] == [s.text for s in exploring]


@pytest.mark.parametrize("options", [{}, {"normalization": "token"}])
def test_a_request_may_leave_exploration_to_others(
    policy: Any, prompt: np.ndarray, options: dict[str, Any]
):
    def played(epsilon: float, explores: bool) -> list[Any]:
        requests = [
            Request(prompt, np.random.default_rng(i), CANDIDATES, explores=explores and i % 2 == 0)
            for i in range(12)
        ]
        return policy.act(requests, Sampling(epsilon=epsilon, **options))

    plain, none, some = played(0.0, True), played(0.9, False), played(0.9, True)
    for i, (a, b, c) in enumerate(zip(plain, none, some, strict=True)):
        assert a.text == b.text
        np.testing.assert_allclose(a.logprobs, b.logprobs, rtol=1e-5)
        same = c.text == b.text and np.allclose(c.logprobs, b.logprobs, rtol=1e-5)
        assert same == (i % 2 == 1)


def test_one_seat_of_each_game_explores(tmp_path: Path):
    settings = [
        *("--env-id", "TicTacToe-v0", "--opponents", "mirror", "--model", "nano", "--constrain"),
        *("--epsilon", "0.9", "--explorers", "one", "--context", "current", "--eval-episodes", "0"),
        *("--teacher", "search:mcts,budget=1,per_state=true", "--visited", "--quiet"),
        *("--episodes-per-iteration", "4", "--iterations", "1", "--run-dir", str(tmp_path / "run")),
    ]
    trainer = make_trainer("exit", read_config("exit", settings))
    specs = [EpisodeSpec("opening/", i, (0, 0, i)) for i in range(4)]
    seated = trainer.lineup.seat(specs, 0, {})
    assert [getattr(each, "explorer", "") for each in seated] == ["player_0", "player_1"] * 2
    differs = []
    found = trainer.rollouts.collect(0)
    for each in found:
        for turn in each.turns:
            [logprobs] = sampling_logprobs(
                trainer.policy, [each.segments[turn.segment].tokens[: turn.start]],
                [list(turn.admissible)], Sampling(),
            )  # fmt: skip
            own = logprobs[turn.admissible.index(turn.action)]
            same = bool(np.isclose(turn.logprobs.sum(), own, rtol=1e-4))
            assert same or each.agent == f"player_{each.episode[-1] % 2}"
            differs.append(not same)
    assert any(differs)
    again = [trainer.lineup.branch(members, 1, (9,)) for members in episodes_of(found)]
    assert [getattr(each, "explorer", "") for each in again] == ["player_0", "player_1"] * 2
    trainer.run()


def test_a_single_explorer_needs_a_game_and_epsilon():
    for changes in ({}, {"epsilon": 0.5, "constrain": True}, {"opponents": "mirror"}):
        with pytest.raises(ConfigError, match=r"explorers belongs to (self-play|epsilon)"):
            recipes.load("exit").Config.of(explorers="one", **changes)


def test_seats_do_not_explore_in_turn_in_groups_of_different_sizes():
    changes = {"opponents": "mirror", "epsilon": 0.5, "constrain": True, "adaptive_groups": True}
    config = recipes.load("rae").Config
    assert config.of(group_size=4, episodes_per_iteration=8, **changes).rollout.adaptive_groups
    with pytest.raises(ConfigError, match="explorers 'one', groups of one size take the seats"):
        config.of(group_size=4, episodes_per_iteration=8, explorers="one", **changes)


def test_the_leaves_of_a_trie_are_the_different_sequences():
    trie = TokenTrie([[1], [1, 2], [1, 2], [3, 4]], end=9)
    assert trie.leaves(0) == 3
    assert trie.leaves(trie.step(0, 1)) == 2
    assert trie.leaves(trie.step(0, 3)) == 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"constrain": False}, "epsilon belongs to constrain: set constrain"),
        ({"engine": "vllm"}, "set engine to 'own'"),
        ({"top_k": 3}, "use only one of them"),
        ({"check_logprobs": 0.1}, "set check_logprobs to None"),
        ({"epsilon": 1.0}, "below 1"),
    ],
)
def test_settings_that_do_not_explore_are_refused(settings: dict[str, Any], message: str):
    kind = recipes.load("poad").Config
    with pytest.raises(ConfigError, match=message):
        kind.of(**{"constrain": True, "epsilon": 0.1, **settings})


def test_evaluations_do_not_explore_and_training_corrects():
    config = recipes.load("poad").Config.of(constrain=True, epsilon=0.1)
    assert config.sampling().epsilon == 0.1 and config.evaluation_sampling().epsilon == 0
    assert config.loss.importance_cap == 5 and config.recompute_logprobs
    with pytest.raises(ConfigError, match="has no epsilon"):
        recipes.load("bc").Config.of(constrain=True, epsilon=0.1)


@pytest.mark.parametrize("normalization", [None, "token"])
def test_a_run_explores(normalization: str | None, tmp_path: Path, without_files: None):
    trainer = make_trainer(
        "turn", env_id="NumberLine-v0", model="nano", context="current", constrain=True,
        epsilon=0.5, normalization=normalization, iterations=1, epochs=1, minibatches=1,
        episodes_per_iteration=8, eval_episodes=0, device="cpu", threads=1, quiet=True,
        run_dir=str(tmp_path),
    )  # fmt: skip
    trainer.run()
    row = read_metrics(tmp_path)[-1]
    assert row["losses/clip_fraction"] == 0  # ratios start from the policy before the update
    assert 0 < row["losses/importance_weight"] < 2.001  # at most 1 / (1 - epsilon)
    assert "rollout/logprob_gap" not in row
