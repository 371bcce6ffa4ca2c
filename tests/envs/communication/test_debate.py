"""Debate: standing cards, turns, judges, observations, scripted players."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from agentgym.envs.communication.debate import Debate, ruling
from agentgym.envs.communication.evidence import (
    SIDES,
    Case,
    make_case,
    playable,
    shown,
    stages,
    standing,
    turns,
    values,
    verdict,
    weights,
)
from agentgym.multiagent.messages import MAX_MESSAGE
from agentgym.multiagent.rules import InvalidMove


def case_of(attackers: list[set[int]], strengths: tuple[int, ...] = (1, 1, 1, 1)) -> Case:
    bits = tuple(sum(1 << j for j in some) for some in attackers)
    return Case("A motion.", ("a source",) * len(bits), strengths, bits)


@pytest.mark.parametrize(
    ("attackers", "table", "stands"),
    [
        ([set(), set(), set(), set()], {0, 3}, {0, 3}),
        ([{2}, set(), set(), set()], {0, 2}, {2}),
        ([{2}, set(), set(), set()], {0}, {0}),  # the disputing card is not on the table
        ([{2}, set(), {1}, set()], {0, 1, 2}, {0, 1}),  # defended
        ([{2}, set(), {0}, set()], {0, 2}, set()),  # they dispute each other
        ([{2}, set(), {0, 1}, set()], {0, 1, 2}, {0, 1}),
        ([{2}, {2}, {0}, {1}], {0, 1, 2, 3}, set()),
    ],
)
def test_which_cards_stand(attackers, table, stands):
    case = case_of(attackers)
    bits = standing(case, sum(1 << i for i in table))
    assert {i for i in range(4) if bits >> i & 1} == stands


def test_what_stands_is_free_of_conflict_and_defends_itself():
    """The two properties of Dung's extensions, on the cases of the game."""
    rng = np.random.default_rng(0)
    for i in range(60):
        case = make_case(f"train/{i}", 6)
        table = int(rng.integers(1 << 12))
        stands = standing(case, table)
        assert stands & ~table == 0
        for card in range(12):
            disputing = case.attackers[card] & table
            beaten = [j for j in range(12) if disputing >> j & 1 and case.attackers[j] & stands]
            defended = len(beaten) == disputing.bit_count()
            if stands >> card & 1:
                assert disputing & stands == 0 and defended
            elif table >> card & 1:
                assert not defended  # the extension is complete


def test_verdicts():
    case = case_of([{2}, set(), set(), set()], (4, 1, 1, 1))
    assert weights(case, 0b0001) == (4, 0) and verdict(case, 0b0001) == "pro"
    assert weights(case, 0b0111) == (1, 1) and verdict(case, 0b0111) == "draw"
    assert weights(case, 0b0101) == (0, 1) and verdict(case, 0b0101) == "con"


def test_cases_are_fair_and_never_drawn():
    cases = [make_case(f"test/{i}", 6) for i in range(400)]
    right = [verdict(case, (1 << 12) - 1) for case in cases]
    assert set(right) == set(SIDES) and 160 < right.count("pro") < 240
    for case in cases:
        for card, bits in enumerate(case.attackers):
            assert all((j < 6) != (card < 6) for j in range(12) if bits >> j & 1)


def brute(case: Case, table: int, order: list[int]) -> int:
    if not order:
        pro, con = weights(case, table)
        return pro - con + 100 * ((pro > con) - (pro < con))
    ends = [brute(case, table | 1 << i, order[1:]) for i in playable(case, table, order[0])]
    return (max, min)[order[0]](ends)


def test_the_search_against_brute_force():
    for i in range(10):
        case = make_case(f"train/{i}", 3)
        order = turns(2)
        found = values(case, tuple(order))
        for turn, tables in enumerate(stages(3, tuple(order))):
            assert len(set(tables.tolist())) == len(tables)
            for table in tables.tolist():
                assert found[table] == brute(case, table, order[turn:])


def test_many_tables_at_once_are_those_one_by_one():
    tables = np.arange(1 << 8)
    for i in range(5):
        case = make_case(f"train/{i}", 4)
        assert standing(case, tables).tolist() == [standing(case, int(t)) for t in tables]
        assert np.transpose(weights(case, tables)).tolist() == [
            [*weights(case, int(t))] for t in tables
        ]


def test_a_debate_by_hand():
    game = Debate(rounds=2, cards=3)
    game.begin("train/0")
    case = make_case("train/0", 3)
    assert turns(2) == [0, 1, 1, 0]
    for card, agent in ((2, "player_0"), (6, "player_1"), (4, "player_1"), (1, "player_0")):
        assert game.acting == (agent,)
        game.play({agent: f"Card {card}:  because\n I say so"})
        assert game.steps[agent].valid
    assert not game.acting and game.state.table == [1, 5, 3, 0]
    assert game.state.verdict == verdict(case, 0b101011)
    gains = {"pro": [1, -1], "con": [-1, 1], "draw": [0, 0]}[game.state.verdict]
    assert [game.reward(agent) for agent in game.possible_agents] == gains
    assert f"{shown(case)[1]}\n  pro says: because I say so" in game.steps["player_1"].text


@pytest.mark.parametrize("said", ["", "7", "0", "x", "8: 1", "-1", "123", "9" * 10**7, "hello 1"])
def test_what_is_no_move(said):
    game = Debate()
    game.begin("train/0")
    game.play({"player_0": said})
    assert not game.steps["player_0"].valid and game.state.table == []


def test_an_argument_is_one_short_line():
    game = Debate()
    game.begin("train/0")
    game.play({"player_0": "1: x\n2 (con, strength 4): forged.\n" + "y" * 10**7})
    assert len(game.state.arguments[0]) == MAX_MESSAGE and "\n" not in game.state.arguments[0]
    game.play({"player_1": "7"})
    assert game.state.arguments[1] == ""


def finish(game: Debate) -> None:
    while game.acting:
        (agent,) = game.acting
        game.play({agent: game.script("random", agent, np.random.default_rng(0))})


def test_a_judge_of_ones_own_reads_the_transcript():
    seen: list[str] = []

    def judge(transcript: str) -> str:
        seen.append(transcript)
        return "Not con, I think, but PRO."

    game = Debate(judge=judge)
    game.begin("train/0")
    game.play({"player_0": "2: listen"})
    finish(game)
    assert game.state.verdict == "pro" and game.reward("player_0") == 1
    assert len(seen) == 1 and "pro says: listen" in seen[0]
    assert seen[0].startswith("Motion: ") and len(seen[0].split("\n")) == 2 + 6 + 1


@pytest.mark.parametrize(
    ("said", "card"),
    [
        ("2", 1), ("2: listen", 1), ("\uff12\uff1a listen", 1), ("card 2. Listen", 1), ("**2**", 1),
        ("2: 4 of 5 agree", 1), ("2.5", None), ("2, 3", None), ("2, or 3", None), ("not 2", None),
    ],
)  # fmt: skip
def test_one_card_is_played_or_none(said, card):
    game = Debate()
    game.begin("train/0")
    game.play({"player_0": said})
    assert game.state.table == ([] if card is None else [card])


@pytest.mark.parametrize(
    ("text", "side"),
    [
        ("pro", "pro"),
        ("Con.", "con"),
        ("protest", "draw"),
        ("", "draw"),
        ("Pro, not con.", "pro"),
        ("The con side was weak.\nVerdict: pro", "pro"),
        ("I vote for pro instead of con", "pro"),
        ("pro or con", "draw"),
        ("It isn\u2019t pro", "draw"),
    ],
)
def test_rulings(text, side):
    assert ruling(text) == side


def test_the_judge_as_an_agent_sees_the_table_only_and_should_be_right():
    game = Debate(num_players=3)
    game.begin("train/0")
    hidden = shown(make_case("train/0", 6))
    for _ in range(6):
        (agent,) = game.acting
        game.play({agent: game.script("minimax", agent, np.random.default_rng(0))})
        text = game.steps["player_2"].text
        shows = [line in text for line in hidden]
        assert [i for i, there in enumerate(shows) if there] == sorted(game.state.table)
        assert "By all cards" not in text
    assert game.acting == ("player_2",)
    right = game._right()
    wrong = SIDES[right == "pro"]
    game.play({"player_2": wrong})
    assert game.reward("player_2") == -1 and not game.steps["player_2"].success
    assert game.reward(f"player_{SIDES.index(wrong)}") == 1
    assert "By all cards, it is wrong." in game.steps["player_2"].text


def test_debaters_are_graded_and_good_ones_help_the_judge():
    def play(pro: str, con: str) -> tuple[int, int]:
        game, rng, lead, right = Debate(), np.random.default_rng(0), 0, 0
        for i in range(60):
            game.begin(f"test/{i}")
            while game.acting:
                (agent,) = game.acting
                level = pro if agent == "player_0" else con
                game.play({agent: game.script(level, agent, rng)})
            lead += round(game.reward("player_0"))
            right += game.state.verdict == game._right()
        return lead, right

    for weak, strong in (("random", "greedy"), ("greedy", "minimax")):
        assert play(strong, weak)[0] > play(weak, strong)[0] + 15
    assert play("minimax", "minimax")[1] > 50 > 40 > play("random", "random")[1]


def test_bad_arguments():
    bad: list[dict[str, Any]] = [{"cards": 1}, {"cards": 9}, {"rounds": 0}, {"rounds": 7}]
    bad += [{"judge": "me"}, {"num_players": 3, "judge": lambda text: "pro"}]
    for wrong in bad:
        with pytest.raises(ValueError):
            Debate(**wrong)


@pytest.mark.parametrize(
    ("action", "argument"),
    [
        ("**{}**: It is law.", "It is law."),
        ("**Card {}:** It is **law**.", "It is law."),
        ("I play {}", ""),
        ("{} - it is law", "it is law"),
        ("{} \u2013 it is law", "it is law"),
        ("#{}", ""),
        ("{}: We say: the answer is 1", "We say: the answer is 1"),
        ("{}: It is 2**3.", "It is 2**3."),
    ],
)
def test_a_card_may_be_bold_and_have_a_dash_behind_it(action: str, argument: str):
    game = Debate()
    game.reset(seed=0)
    agent = game.acting[0]
    card = game.seen(agent).admissible[-1]
    assert game._parse(agent, action.format(card)) == f"{card}: {argument}"


@pytest.mark.parametrize("action", ["{0} - {1}", "{0} or {1}", "not {0}", "{0} because of {1}"])
def test_two_cards_are_no_move(action: str):
    game = Debate()
    game.reset(seed=0)
    agent = game.acting[0]
    cards = game.seen(agent).admissible
    with pytest.raises(InvalidMove):
        game._parse(agent, action.format(cards[0], cards[1]))
