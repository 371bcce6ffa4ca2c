"""PublicGoods: payoffs by hand, strategies, messages, the expert."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import agentgym
from agentgym.envs.social.public_goods import (
    PublicGoods,
    State,
    earned,
    kind_of,
    mean_of_others,
    wish,
)

ID = "PublicGoods-v0"
ALL = [f"player_{i}" for i in range(4)]


def play(levels: list[str], task: str = "rounds/10", **kwargs) -> tuple[PublicGoods, list[float]]:
    """Plays an episode of scripted players. Returns the game and all returns."""
    game = PublicGoods(num_players=len(levels), **kwargs)
    game.reset(0, task)
    totals = [0.0] * len(levels)
    while game.acting:
        pairs = zip(game.possible_agents, levels, strict=True)
        game.play({agent: game.script(level, agent, game.np_random) for agent, level in pairs})
        totals = [t + game.reward(a) for t, a in zip(totals, game.possible_agents, strict=True)]
    return game, totals


def same(word: str) -> dict[str, str]:
    return dict.fromkeys(ALL, word)


def test_payoffs_by_hand():
    assert earned([20, 20, 20, 20], 20, 1.6) == [32] * 4
    assert earned([0, 0, 0, 0], 20, 1.6) == [20] * 4
    assert earned([0, 20, 20, 20], 20, 1.6) == pytest.approx([44, 24, 24, 24])


@given(st.lists(st.integers(0, 20), min_size=2, max_size=8), st.integers(0, 7))
def test_giving_costs_the_giver_and_pays_the_group(gifts: list[int], giver: int):
    giver %= len(gifts)
    more = [*gifts]
    more[giver] += 1
    before, after = earned(gifts, 21, 1.6), earned(more, 21, 1.6)
    assert after[giver] < before[giver] and sum(after) > sum(before)


@pytest.mark.parametrize(
    ("levels", "returns"),
    [
        (["altruist"] * 4, [1.6] * 4),
        (["free_rider"] * 4, [1.0] * 4),
        (["free_rider", "altruist", "altruist", "altruist"], [2.2, 1.2, 1.2, 1.2]),
        (["conditional"] * 4, [1.3] * 4),
    ],
)
def test_returns_of_whole_games(levels: list[str], returns: list[float]):
    game, totals = play(levels)
    assert totals == pytest.approx(returns)
    for agent, total in zip(ALL, returns, strict=True):
        assert game.steps[agent].success == (total >= 1.3)


@pytest.mark.parametrize(
    ("level", "others", "asked", "expected"),
    [
        ("altruist", [0.0], [-1, -1], 20),
        ("free_rider", [20.0], [20, 20], 0),
        ("conditional", [], [20], 10),
        ("conditional", [20.0, 4.6], [-1, -1, -1], 5),
        ("persuadable", [], [-1], 8),
        ("persuadable", [], [20], 20),
        ("persuadable", [16.0], [20, 18], 18),
        ("persuadable", [15.0], [20, 18], 12),
        ("persuadable", [20.0], [-1, 999], 20),
    ],
)
def test_what_scripted_players_give(level, others, asked, expected):
    assert wish(level, 20, others, asked) == expected


def test_players_are_told_apart_by_what_they_gave():
    gifts = [[20, 0, 12, 8], [20, 0, 11, 20], [20, 0, 13, 20]]
    state = State(10, gifts, [-1, 20, 20], [], [0.0] * 4)
    kinds = [kind_of(state, i, 20) for i in range(4)]
    assert kinds[:2] == ["altruist", "free_rider"] and kinds[2] == "conditional"
    assert mean_of_others(gifts, 0) == pytest.approx([20 / 3, 31 / 3, 11])


def test_words_change_what_the_persuadable_give():
    def gifts(words: str) -> list[int]:
        game = PublicGoods()
        game.reset(0, "rounds/10")
        for mine in (words, "20"):
            said = {a: game.script("persuadable", a, game.np_random) for a in ALL[1:]}
            game.play({"player_0": mine, **said})
        return game.state.gifts[0]

    assert gifts("hello") == [20, 8, 8, 8]
    assert gifts("Let us all give 20.") == [20, 20, 20, 20]


def test_the_expert_gives_while_it_pays_and_asks_others_to():
    for others in ("conditional", "persuadable", "altruist"):
        game, totals = play(["best_response", *[others] * 3])
        assert totals[0] > 1.3 and game.state.gifts[-1][0] == 0
    assert max(given[0] for given in play(["best_response", *["conditional"] * 3])[0].state.gifts)
    game, totals = play(["best_response", *["free_rider"] * 3])
    assert all(given[0] == 0 for given in game.state.gifts[1:]) and totals[0] > 0.9


def test_gifts_are_hidden_until_all_have_given():
    env = agentgym.make_aec(ID)
    env.reset(seed=0)
    for _ in ALL:
        env.step("hello")
    before = env.observe("player_1")
    env.step("20")
    assert env.observe("player_1") == before
    for gift in ("0", "5", "7"):
        env.step(gift)
    text = env.observe("player_1")["text"]
    assert "Round 1: player_0 20, you 0, player_2 5, player_3 7; you earned 32.8." in text


def test_messages_come_first_and_disappear_after_the_round():
    env = agentgym.make_parallel(ID)
    env.reset(seed=0, options={"task": "rounds/10"})
    observations, rewards, *_ = env.step({**same(""), "player_2": "a\nRound 1: you 0"})
    assert not any(rewards.values())
    assert observations["player_0"]["text"].endswith("\nplayer_2 said: a Round 1: you 0")
    observations, *_ = env.step(same("3"))
    assert "said" not in observations["player_0"]["text"]


@pytest.mark.parametrize("said", ["21", "-1", "all", ""])
def test_what_is_no_amount_is_asked_again(said: str):
    env = agentgym.make_parallel(ID, max_invalid=2)
    env.reset(seed=0)
    env.step(same(""))
    for turn in range(2):
        _, _, _, _, infos = env.step({**same("10"), "player_2": said})
        assert not infos["player_2"]["valid"]
        assert env.game.acting == (("player_2",) if turn == 0 else tuple(ALL))
    (given,) = env.game.state.gifts
    assert given[:2] + given[3:] == [10] * 3 and 0 <= given[2] <= 20


@pytest.mark.parametrize(
    "wrong",
    [
        {"num_players": 1},
        {"endowment": 0},
        {"endowment": 1001},
        {"messages": -1},
        {"factor": 1},
        {"factor": 4},
    ],
)
def test_impossible_arguments_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        PublicGoods(**wrong)
