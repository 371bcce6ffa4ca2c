"""Bandit: payoff frequencies, regret, and an expert that finds the best arm."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest

from agentgym.envs.bandit.bandit import Bandit, thompson, ucb


def test_arms_pay_with_their_probability():
    env = Bandit(rounds=4000)
    _, info = env.reset(seed=0)
    assert info["regret"] == 0
    best = env.state.means.index(max(env.state.means))
    for _ in range(2000):
        env.step(env.names[best])
        *_, info = env.step(env.names[best - 1])
    pairs = zip(env.state.sums, env.state.pulls, strict=True)
    means = [total / count for total, count in pairs if count]
    assert sorted(means) == pytest.approx([0.25, 0.75], abs=0.04)
    assert info["regret"] == env.state.regret == pytest.approx(2000 * 0.5)


def test_ucb_tries_all_then_the_best():
    assert ucb([1, 0, 1], [1.0, 0.0, 0.0]) == 1
    assert ucb([50, 50], [40.0, 10.0]) == 0
    assert ucb([1000, 2], [500.0, 1.0]) == 1  # rarely tried arms may still be better
    assert ucb([1000, 2], [500.0, 0.0], width=2) == 1 != ucb([1000, 9], [900.0, 0.0])


def test_the_expert_beats_chance_and_the_return_is_the_mean_pay():
    env = Bandit(rounds=200)
    total, wins = 0.0, 0
    for seed in range(10):
        env.reset(seed=seed)
        for turn in range(200):
            _, reward, terminated, _, info = env.step(str(env.expert()))
            total += reward / 10
            wins += info["success"]
            assert terminated == (turn == 199)
    assert total > 0.65 and wins > 7


def test_both_ways_of_telling_say_the_same():
    shown, told = Bandit(arms=2), Bandit(arms=2, summary=False)
    texts, text = [], ""
    for env in (shown, told):
        env.reset(seed=3)
        for name in ("red", "blue", "red"):
            text, *_ = env.step(name)
        texts.append(text)
    assert shown.state.sums == told.state.sums
    assert "red: pressed 2 times" in texts[0]
    assert texts[1].count("red paid") == 2


def test_gaussian_arms_pay_about_their_means():
    env = Bandit(pays="gaussian", difficulty="hard", arms=20, rounds=8000)
    env.reset(seed=0)
    means = np.array(env.state.means)
    assert 1.5 < means.std() < 4.5
    for turn in range(7999):
        env.step(env.names[turn % 2])
    text, *_ = env.step(env.names[1])
    paid = np.array([x for arm, x in env.state.history if arm == 0])
    assert paid.mean() == pytest.approx(means[0], abs=0.2)
    assert paid.std() == pytest.approx(3, abs=0.1)
    assert f" {env.names[1]} paid {env.state.history[-1][1]:.2f}. " in text
    assert env.state.regret == pytest.approx(4000 * (2 * means.max() - means[:2].sum()))


def test_thompson_samples_follow_what_is_known():
    rng = np.random.default_rng(0)
    drawn = [thompson([0, 8], [0.0, 2.0], 0.0, rng) for _ in range(4000)]
    # Beta(1, 1) is above Beta(3, 7) with probability 1 - 3 / 10, the mean of the latter.
    assert np.mean(drawn) == pytest.approx(0.3, abs=0.02)
    drawn = [thompson([3, 0], [8.0, 0.0], 2.0, rng) for _ in range(4000)]
    # N(2, 1) against N(0, 2): the difference is N(2, sqrt 5).
    assert np.mean(drawn) == pytest.approx(0.1855, abs=0.02)


@pytest.mark.parametrize("pays", ["bernoulli", "gaussian"])
def test_thompson_s_advice_beats_chance_and_disturbs_nothing(pays: str):
    env = Bandit(pays=pays, advice="thompson", rounds=100)
    progress = []
    for seed in range(10):
        _, info = env.reset(seed=seed)
        while info["turn"] < 100:
            assert env.expert() == env.expert()
            info = env.step(str(env.expert()))[4]
        progress.append(info["progress"])
    assert np.mean(progress) > 0.5


@pytest.mark.parametrize("pays", ["bernoulli", "gaussian"])
def test_support_shows_the_scores_that_the_expert_maximises(pays: str):
    env = Bandit(arms=4, support=True, pays=pays)
    text, _ = env.reset(seed=2)
    assert text.count("never pressed, bonus inf, score inf") == 4
    for _ in range(30):
        scores = [float(score) for score in re.findall(r"score (-?[\d.]+|-?inf)\.", text)]
        chosen = env.names.index(str(env.expert()))
        assert len(scores) == 4 and scores[chosen] == max(scores)
        text, *_ = env.step(env.names[chosen])


def test_demonstrations_are_games_of_the_expert_on_other_buttons():
    plain, shown = Bandit(), Bandit(demonstrations=2)
    assert shown.reset(seed=1)[0] == plain.reset(seed=1)[0]
    for name in ("red", "blue", "blue"):
        assert shown.step(name)[:2] == plain.step(name)[:2]  # the payoffs are the same
    examples = shown.instructions.removeprefix(plain.instructions).strip().split("\n\n")
    assert len(examples) == 2 and examples[0] != examples[1]
    for example in examples:
        presses = re.findall(r"(\w+) paid [01]", example)
        assert presses[:5] == list(plain.names)  # all buttons first, then mostly the best
        assert len(presses) == 20 and Counter(presses).most_common(1)[0][1] >= 6
    assert Bandit(demonstrations=2).instructions == shown.instructions


@pytest.mark.parametrize(
    "kwargs",
    [
        {"arms": 1},
        {"difficulty": "medium"},
        {"rounds": 0},
        {"pays": "cash"},
        {"advice": "greedy"},
        {"support": True, "summary": False},
        {"demonstrations": 11},
    ],
)
def test_impossible_arguments_are_refused(kwargs):
    with pytest.raises(ValueError, match=next(iter(kwargs))):
        Bandit(**kwargs)
