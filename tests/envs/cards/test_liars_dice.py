"""LiarsDice: bids, probabilities by counting, rounds, the solved duel, inference from bids."""

from __future__ import annotations

from itertools import product
from typing import Any

import gymnasium
import numpy as np
import pytest

import agentgym
from agentgym.envs.cards import bidding as dice
from agentgym.envs.cards import duel
from agentgym.envs.cards.bidding import State, usual_bid
from agentgym.envs.cards.liars_dice import LIAR, LiarsDice

ID = "LiarsDice-v0"


def bid(name: str) -> int:
    return next(i for i in range(200) if dice.bid_name(i) == name)


def test_names_and_order_of_bids():
    names = [dice.bid_name(i) for i in range(13)]
    assert names[:7] == ["1 one", "1 two", "1 three", "1 four", "1 five", "1 six", "2 ones"]
    assert names[11:] == ["2 sixes", "3 ones"]


@pytest.mark.parametrize(
    ("name", "true"), [("1 five", True), ("2 fives", False), ("3 twos", True), ("4 twos", False)]
)
def test_true_and_false_bids(name, true):
    assert dice.is_true(bid(name), [(1, 1), (1, 4), ()]) == true


def test_probabilities_by_counting_all_rolls():
    for hits, number in product(range(-1, 5), range(4)):
        rolls = [*product(range(6), repeat=number)]
        share = sum(roll.count(2) >= hits for roll in rolls) / len(rolls)
        assert dice.at_least(hits, number) == pytest.approx(share)
    assert sum(dice.all_hands(3).values()) == pytest.approx(1)
    assert dice.all_hands(2)[(1, 4)] == pytest.approx(2 / 36)
    assert dice.truth(bid("2 sixes"), (5, 0), 4) == pytest.approx(11 / 36)


def test_levels_by_hand():
    """Acts with a five and a three against two dice."""
    hand = (2, 4)

    def says(level: str, last: int) -> str:
        choice = int(dice.policy(level, hand, 4, last).argmax()) - (last >= 0)
        return LIAR if choice < 0 else dice.bid_name(last + 1 + choice)

    assert says("honest", dice.NO_BID) == "1 three"
    assert says("honest", bid("1 three")) == "1 five"
    assert says("honest", bid("3 twos")) == "liar"
    assert says("timid", dice.NO_BID) == "1 one"
    assert says("timid", bid("1 five")) == "1 six"
    assert says("timid", bid("1 six")) == "liar"  # 11 in 36


def play(env: Any, *said: str) -> None:
    for words in said:
        env.step({env.game.acting[0]: words})


def test_a_game_by_hand():
    env = agentgym.make_parallel(ID)
    env.reset(seed=0)
    game = env.game
    game.state = State(hands=[(0, 1), (1, 4)], mover=0)
    game.episode.acting = ("player_0",)
    game._observe({})
    play(env, "1 one")
    assert game.steps["player_1"].admissible[::23] == ("1 two", "liar")
    play(env, "2 TWOS ", "liar")  # the bid was true and player_0 doubted it
    assert [len(hand) for hand in game.state.hands] == [1, 2]
    assert game.acting == ("player_0",) and game.state.number == 1
    assert "The bid is true: player_0 loses a die." in env.observe("player_1")["text"]
    assert game.steps["player_0"].admissible[-2:] == ("3 fives", "3 sixes")
    game.state.hands = [(3,), (3, 3)]
    env.step({"player_0": "3 fives"})
    _, rewards, terminations, _, infos = env.step({"player_1": "liar"})
    assert rewards == {"player_0": -1, "player_1": 1} and all(terminations.values())
    assert infos["player_1"]["success"] and infos["player_1"]["progress"] == 1
    assert not infos["player_0"]["success"]


def test_who_is_out_leaves_and_the_others_share_a_point():
    env = agentgym.make_parallel(ID, num_players=3, dice=1)
    env.reset(seed=0)
    env.game.state = State(hands=[(0,), (1,), (2,)], mover=1)
    env.game.episode.acting = ("player_1",)
    env.step({"player_1": "2 twos"})
    _, rewards, terminations, _, _ = env.step({"player_2": "liar"})
    assert rewards == {"player_0": 0.5, "player_1": -1, "player_2": 0.5}
    assert terminations == {"player_0": False, "player_1": True, "player_2": False}
    assert env.game.acting == ("player_2",)  # the next one, because the loser is out
    assert env.game.state.total == 2


def test_dice_are_hidden_and_fixed_by_the_task():
    one, two = LiarsDice(), LiarsDice()
    one.reset(seed=1, task="test/5")
    two.reset(seed=2, task="test/5")
    assert one.state == two.state
    seen = one._look("player_0").text
    one.state.hands[1] = tuple((face + 1) % 6 for face in one.state.hands[1])
    assert one._look("player_0").text == seen


def test_a_critic_reads_the_dice_of_the_next_round():
    game = LiarsDice(num_players=3, dice=3)
    for seed in range(5):
        game.reset(seed=seed)
        while len(game.acting) and game.state.total > 2:
            following = game.privileged_text("player_0").partition("Next dice: ")[2].split(";")[0]
            number = game.state.number
            while game.acting and game.state.number == number:
                (agent,) = game.acting
                game.play({agent: game.script("honest", agent, game.np_random)})
            for hand, told in zip(game.state.hands, following.rstrip(".").split(", "), strict=True):
                faces = [int(face) - 1 for face in told.partition(": ")[2].split() if face != "out"]
                assert not game.acting or hand == tuple(sorted(faces[: len(hand)]))


def test_the_same_situation_in_another_round_is_the_same_state():
    env = agentgym.make_parallel(ID)
    env.reset(seed=0)
    before = env.game._look("player_0")
    env.game.state.number += 1
    after = env.game._look("player_0")
    assert before.text != after.text and before.state_key == after.state_key


def test_random_play_in_a_duel_has_the_value_found_by_recursion():
    def first_wins(last: int, mover: int) -> np.ndarray:
        """Returns the first bidder's value, by both faces, under uniform random play."""
        outcomes = []
        if last >= 0:
            lies = duel.lie_pays()[last]
            outcomes.append(lies if mover == 0 else -lies.T)
        outcomes += [first_wins(b, 1 - mover) for b in range(last + 1, duel.BIDS)]
        return np.mean(outcomes, axis=0)

    _, value, _ = duel.worth(duel.uniform())
    assert value == pytest.approx(first_wins(-1, 0).mean())


@pytest.mark.slow
def test_the_duel_is_solved():
    found = duel.equilibrium()
    _, value, _ = duel.worth(found)
    _, best_first, _ = duel.worth(found, 0)
    _, best_second, _ = duel.worth(found, 1)
    assert best_second <= value <= best_first
    assert best_first - best_second < 1e-3
    assert value == pytest.approx(-1 / 9, abs=1e-3)
    for level in dice.SIMPLE:
        table = dice.duel_table(level)
        assert duel.worth(table, 0)[1] >= value - 1e-3  # at least the value against any opponent
        assert duel.worth(table, 1)[1] <= value + 1e-3


@pytest.mark.slow
def test_a_best_response_gets_what_it_is_said_to_get():
    for level in (*dice.SIMPLE, "shrewd"):
        theirs = duel.equilibrium() if level == "shrewd" else dice.duel_table(level)
        for me in (0, 1):
            _, value, answer = duel.worth(theirs, me)
            assert duel.worth(answer)[1] == pytest.approx(value)
            others = [acts != bool(me) for acts in duel.second_acts()]
            for rows, table, played in zip(others, theirs, answer, strict=True):
                assert np.array_equal(table[rows], played[rows])


def test_beliefs_follow_from_honest_bids():
    state = State(hands=[(0, 0), (3, 3)], mover=0, number=0)
    state.bids, state.bidders = [bid("1 four")], [1]
    hands = dice.beliefs(state, 0, ["honest"] * 2)
    assert hands[0] == {(0, 0): 1.0}
    likely = sum(chance for hand, chance in hands[1].items() if 3 in hand)
    assert likely > 0.9 and sum(hands[1].values()) == pytest.approx(1)
    unread = dice.beliefs(state, 0, ["random"] * 2)
    assert unread[1] == pytest.approx(dice.all_hands(2))


def test_chances_of_counts_by_counting():
    hands = [dice.all_hands(2), {(4, 4): 0.25, (0, 4): 0.75}]
    chances = dice.count_chances(4, hands)
    rolls = [*product(range(6), repeat=2)]
    for count in range(5):
        share = sum(
            w * sum(roll.count(4) + hand.count(4) == count for roll in rolls) / 36
            for hand, w in hands[1].items()
        )
        assert chances[count] == pytest.approx(share)


def test_looking_ahead_uses_only_what_the_mover_knows():
    state = State(hands=[(0, 3), (2, 3), (5, 5)], mover=0, bids=[2, 9], bidders=[1, 2])
    other = State(hands=[(0, 3), (1, 1), (0, 4)], mover=0, bids=[2, 9], bidders=[1, 2])
    levels = ["honest"] * 3
    assert dice.look_ahead(state, levels) == dice.look_ahead(other, levels)


@pytest.mark.parametrize(("level", "least"), [("random", 0.6), ("timid", 0.8), ("honest", 0.1)])
def test_the_expert_beats_every_simple_level(level, least):
    env: Any = gymnasium.make(f"AgentGym/{ID}", opponents=level, disable_env_checker=True).unwrapped
    total = 0.0
    for task in range(60):
        env.reset(seed=task, options={"task": f"test/{task}"})
        over = False
        while not over:
            _, reward, over, _, _ = env.step(env.expert())
            total += reward
    assert total / 60 > least


@pytest.mark.parametrize("wrong", [{"dice": 0}, {"dice": 6}, {"num_players": 7}])
def test_wrong_arguments(wrong):
    with pytest.raises(ValueError):
        LiarsDice(**wrong)


@pytest.mark.parametrize("level", dice.SIMPLE)
@pytest.mark.parametrize(("own", "total"), [(1, 2), (2, 4), (3, 7)])
def test_a_doubt_is_the_first_choice_of_the_policy(level, own, total):
    for hand in dice.all_hands(own):
        for last in range(6 * total):
            assert (
                dice.doubt_chance(level, hand, total, last)
                == dice.policy(level, hand, total, last)[0]
            )


@pytest.mark.parametrize(
    ("text", "bid"),
    [
        ("two sixes", "2 sixes"),
        ("2 six", "2 sixes"),
        ("2 6s", "2 sixes"),
        ("i bid three 1's", "3 ones"),
        ("bid: 2x fours", "2 fours"),
        ("one threes", "1 three"),
        ("call liar", "liar"),
        ("i challenge", "liar"),
    ],
)
def test_bids_in_other_words(text: str, bid: str):
    assert usual_bid(text) == bid == usual_bid(bid)


@pytest.mark.parametrize(
    "text",
    [
        "2 6",
        "11s",
        "26s",
        "zero ones",
        "0 ones",
        "not 2 sixes",
        "2 sevens",
        "2 sixes or liar",
        "a liar",
        "6",
    ],
)
def test_other_words_are_no_bid(text: str):
    assert usual_bid(text) == text
