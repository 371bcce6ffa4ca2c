"""Blackjack: the same results as Gymnasium for the same cards, and the known optimal strategy."""

from __future__ import annotations

from itertools import product
from typing import Any

import gymnasium
import numpy as np
import pytest

from agentgym.envs.cards.blackjack import (
    CHANCES,
    RANKS,
    Blackjack,
    best_action,
    dealer_ends,
    payoff,
    points,
    total,
    value_of_hitting,
    value_of_standing,
)


class Scripted:
    """Deals given cards in order, for Gymnasium's environment and for ours."""

    def __init__(self, cards: list[int]):
        self.cards = list(cards)

    def choice(self, deck: list[int]) -> int:
        return self.cards.pop(0)

    def integers(self, count: int) -> int:
        return self.cards.pop(0) - 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sab", "natural"), [(True, False), (False, True), (False, False), (True, True)]
)
def test_the_same_cards_bring_the_same_as_in_gymnasium(sab: bool, natural: bool):
    rng = np.random.default_rng(0)
    reference: Any = gymnasium.make("Blackjack-v1", sab=sab, natural=natural).unwrapped
    ours = Blackjack(sab=sab, natural=natural)
    values = list(CHANCES)
    seen = set()
    for _ in range(1500):
        cards = [values[i] for i in rng.choice(10, size=25, p=list(CHANCES.values()))]
        player, second, shown, hole, *later = cards
        if rng.random() < 0.2:
            player, second = 1, 10
        reference.reset(seed=0)
        ours.reset(seed=0)
        reference.player, reference.dealer = [player, second], [shown, hole]
        ours.state.player = [RANKS[player - 1], RANKS[second - 1]]
        ours.state.dealer = [RANKS[shown - 1]]
        reference._np_random, draws = Scripted(later), Scripted(later)
        ours._np_random = draws  # type: ignore[assignment]
        ended = False
        while not ended:
            stand = bool(rng.random() < 0.5)
            if stand:
                draws.cards.insert(0, hole)
            assert total(ours.state.player)[0] == reference._get_obs()[0]
            assert total(ours.state.player)[1] == bool(reference._get_obs()[2])
            _, expected, ended, _, _ = reference.step(int(not stand))
            _, reward, terminated, truncated, info = ours.step("stand" if stand else "hit")
            assert (reward, terminated, truncated) == (expected, ended, False)
            assert info["success"] == (reward > 0)
            seen.add(reward)
    assert seen == ({-1, 0, 1, 1.5} if natural and not sab else {-1, 0, 1})


def test_hands_count_as_they_should():
    for cards, count in [("A K", 21), ("A A", 12), ("A A 9", 21), ("A 9 5", 15), ("Q J 2", 22)]:
        assert total(cards.split())[0] == count
    assert payoff(["A", "K"], ["9", "5", "7"], sab=True, natural=False) == 1
    assert payoff(["A", "K"], ["9", "5", "7"], sab=False, natural=True) == 0
    assert payoff(["A", "K"], ["A", "J"], sab=True, natural=False) == 0
    assert payoff(["A", "K"], ["10", "J"], sab=False, natural=True) == 1.5


def test_the_dealer_s_ends_are_a_distribution_and_known():
    for shown in range(1, 11):
        assert sum(dealer_ends(shown, shown == 1, 1).values()) == pytest.approx(1)
    # Probabilities to exceed 21 from 6 and from 10, standing on every 17, from published tables.
    assert dealer_ends(6, False, 1)[0] == pytest.approx(0.4232, abs=1e-3)
    assert dealer_ends(10, False, 1)[0] == pytest.approx(0.2121, abs=1e-3)


def test_the_expert_plays_the_strategy_of_sutton_and_barto():
    def stands_from(shown: str, soft: bool) -> int:
        for count in range(12, 22):
            hand = ["A", str(count - 11)] if soft else ["10", str(count - 10)]
            if soft and count in (12, 21):  # two aces, not a blackjack
                hand = ["A", "A"] if count == 12 else ["A", "5", "5"]
            if not soft and count == 21:
                hand = ["10", "9", "2"]
            if best_action(hand, shown, sab=True, natural=False) == "stand":
                return count
        raise AssertionError

    hard = [stands_from(rank, soft=False) for rank in RANKS[:10]]
    assert hard == [17, 13, 13, 12, 12, 12, 17, 17, 17, 17]
    soft = [stands_from(rank, soft=True) for rank in RANKS[:10]]
    assert soft == [19, 18, 18, 18, 18, 18, 18, 18, 19, 19]
    assert best_action(["5", "6"], "6", sab=True, natural=False) == "hit"
    assert best_action(["A", "K"], "A", sab=True, natural=False) == "stand"


def test_the_values_are_what_playing_gives():
    """Compares expected returns over all starts with the means of many hands."""
    expected = 0.0
    for first, second, shown in product(CHANCES, repeat=3):
        chance = CHANCES[first] * CHANCES[second] * CHANCES[shown]
        blackjack = {first, second} == {1, 10}
        hard, ace = first + second, 1 in (first, second)
        count = hard + 10 if ace and hard <= 11 else hard
        stand = value_of_standing(count, blackjack, shown, True, False)
        expected += chance * max(stand, value_of_hitting(hard, ace, shown, True, False))
    env, returns = Blackjack(), []
    for seed in range(6000):
        env.reset(seed=seed)
        reward, ended = 0.0, False
        while not ended:
            _, reward, ended, *_ = env.step(str(env.expert()))
        returns.append(reward)
    assert np.mean(returns) == pytest.approx(expected, abs=4 * np.std(returns) / 6000**0.5)
    assert expected == pytest.approx(-0.045, abs=0.01)


def test_states_are_equal_where_the_cards_decide_the_same():
    env = Blackjack()
    keys = []
    for cards, shown in [("K 6", "Q"), ("7 9", "10"), ("A 5", "Q"), ("K 6", "9"), ("A 2 3", "J")]:
        env.reset(seed=0)
        env.state.player, env.state.dealer = cards.split(), [shown]
        keys.append(env._look().state_key)
    assert keys[0] == keys[1] and keys[2] == keys[4] and len(set(keys)) == 3
    assert [points(rank) for rank in ("A", "9", "10", "K")] == [1, 9, 10, 10]


def test_words_for_standing_and_nonsense():
    env = Blackjack()
    env.reset(seed=0)
    text, reward, *_, info = env.step("double")
    assert "hit or stand" in text and not info["valid"] and reward == -1
    assert env.step(" Stick ")[2]


@pytest.mark.parametrize(
    ("said", "meant"),
    [("Hit me!", "hit"), ("Stay.", "stand"), ("**stick**", "stand"), ("Answer: stay", "stand")],
)
def test_usual_words_for_the_two_actions(said: str, meant: str):
    results = []
    for action in (said, meant):
        env = Blackjack()
        env.reset(seed=3)
        results.append(env.step(action))
    assert results[0] == results[1] and results[0][4]["valid"]


@pytest.mark.parametrize("said", ["do not hit", "hit or stand", "staying", "hit twice"])
def test_other_words_are_no_action(said: str):
    env = Blackjack()
    env.reset(seed=3)
    assert not env.step(said)[4]["valid"]
