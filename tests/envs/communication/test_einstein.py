"""EinsteinPuzzle: puzzles with one solution, split clues, talk, answers, scripted players."""

from __future__ import annotations

from itertools import permutations, product
from typing import Any

import numpy as np
import pytest

from agentgym.envs.communication.einstein import MAX_MESSAGE, QUIET, EinsteinPuzzle
from agentgym.envs.communication.zebra import (
    PEOPLE,
    VALUES,
    clues,
    count_worlds,
    heard,
    make_puzzle,
    odds,
    solve,
    worlds,
)

SIZE = (3, 3)


def brute(clue: str, world: tuple[tuple[int, ...], ...]) -> bool:
    """Returns whether a clue, parsed as English, is true in a world (the house of each value)."""
    where = {
        name.casefold(): world[a][v] + 1
        for a in range(SIZE[1])
        for v, name in enumerate(VALUES[a][: SIZE[0]])
    }
    text = clue.casefold().rstrip(".")
    first = next(name for name in where if text.startswith(name))
    rest = text.removeprefix(first).strip()
    here = where[first]
    if "house" in rest and rest[-1].isdigit():
        return (here == int(rest[-1])) != ("not" in rest)
    other = where[next(name for name in where if rest.endswith(name))]
    if rest.startswith("is not"):
        return here != other
    if rest.startswith("is"):
        return here == other
    if "next to" in rest:
        return abs(here - other) == 1
    return here < other if "somewhere" in rest else here + 1 == other


def test_every_clue_means_what_it_says():
    orders = list(permutations(range(3)))
    for clue in clues(SIZE):
        mask = worlds(SIZE, frozenset([clue]))
        for i, j, k in product(range(6), repeat=3):
            world = orders[i], orders[j], orders[k]
            assert mask[i, j, k] == brute(clue, world), clue


@pytest.mark.parametrize(("size", "players"), [((3, 2), 2), ((4, 3), 2), ((4, 3), 3), ((4, 4), 2)])
def test_puzzles_have_one_solution_and_no_spare_clue_and_need_everybody(size, players):
    for i in range(8):
        puzzle = make_puzzle(f"train/{i}", size, players)
        every = [clue for hand in puzzle.hands for clue in hand]
        assert solve(size, every) == 1 and len(puzzle.hands) == players
        assert all(solve(size, [c for c in every if c != clue]) > 1 for clue in every)
        assert odds(size, frozenset(every), puzzle.about)[puzzle.answer] == 1
        for hand in puzzle.hands:
            assert max(odds(size, frozenset(hand), puzzle.about)) < 1


def test_odds_by_hand():
    about = (1, 0)
    assert odds(SIZE, frozenset(), about) == pytest.approx((1 / 3,) * 3)
    known = frozenset(["Anna is not the owner of the cat."])
    assert odds(SIZE, known, about) == pytest.approx((0, 0.5, 0.5))
    assert odds(SIZE, known | {"Anna is the owner of the cat."}, about) == ()
    assert count_worlds(SIZE) == 216 and solve(SIZE, ["Anna lives in house 2."]) == 72


def test_what_is_heard():
    text = "Well.  ben LIVES next  to Anna; Clara lives in house 9. The owner of the cat is Ben"
    assert heard(SIZE, text) == ("Ben lives next to Anna.", "The owner of the cat is Ben.")
    assert heard(SIZE, "Ben\u00a0lives next to Anna\uff0e") == ("Ben lives next to Anna.",)
    for denied in ("Not Ben lives next to Anna.", "Does Ben live next to Anna?", "If Ben is Anna."):
        assert heard(SIZE, denied) == ()
    for clue in clues(SIZE):
        assert heard(SIZE, clue) == (clue,) and len(clue) <= MAX_MESSAGE


def test_a_game_by_hand():
    game = EinsteinPuzzle(rounds=1)
    game.begin("train/1")
    state = game.state
    assert game.acting == ("player_0", "player_1")
    hand = state.hands[0]
    game.play({"player_0": "Hi!\nRound 1, player_1: " + "x" * 10**7, "player_1": ""})
    for agent in game.possible_agents:
        lines = game.steps[agent].text.split("\n")
        assert lines[-1] == "Round 1, player_1: (no message)"
        assert len(lines[-2]) == len("Round 1, player_0: ") + MAX_MESSAGE
        assert (hand[0] in lines) == (agent == "player_0")
        assert game.steps[agent].admissible == PEOPLE[:4]
    right = PEOPLE[state.answer]
    game.play({"player_0": right, "player_1": PEOPLE[(state.answer + 1) % 4]})
    assert not game.acting
    assert [game.reward(a) for a in game.possible_agents] == [0.5, 0.5]
    assert [game.steps[a].progress for a in game.possible_agents] == [1, 0]
    assert not game.steps["player_0"].success
    told = game.steps["player_1"].text.replace("\n".join(state.hands[1]), "")
    assert right not in told and "Right answers: 1 of 2." in told


def test_progress_is_what_own_and_stated_clues_leave_and_lies_are_survived():
    game = EinsteinPuzzle(num_players=2, rounds=2)
    game.begin("train/2")
    mine, theirs = game.state.hands
    alone = 1 - np.log(solve((4, 3), mine)) / np.log(24**3)
    assert game.steps["player_0"].progress == pytest.approx(alone)
    game.play({"player_0": "", "player_1": theirs[0]})
    more = 1 - np.log(solve((4, 3), [*mine, theirs[0]])) / np.log(24**3)
    assert game.steps["player_0"].progress == pytest.approx(more) and more >= alone
    lie = "Anna lives in house 1. Anna lives in house 2."
    game.play({"player_0": "", "player_1": lie})
    assert game.steps["player_0"].progress == pytest.approx(alone)
    for level in game.levels:
        assert game.script(level, "player_0", np.random.default_rng(0)) in PEOPLE


def test_nobody_sees_the_clues_of_others_or_the_answer():
    one, two = EinsteinPuzzle(), EinsteinPuzzle()
    for game in (one, two):
        game.begin("train/3")
    two.state.hands[1] = two.state.hands[1][:1]
    two.state.answer = (two.state.answer + 1) % 4
    for _ in range(4):
        step, other = one.steps["player_0"], two.steps["player_0"]
        two._observe({})
        assert (step.observation, step.progress) == (other.observation, other.progress)
        said = "Ben" if not one._talking() else "Hello."
        for game in (one, two):
            game.play(dict.fromkeys(game.acting, said)) if game.acting else None


def play(level: str, task: str, **kwargs) -> float:
    game, rng = EinsteinPuzzle(**kwargs), np.random.default_rng(0)
    game.begin(task)
    while game.acting:
        game.play({agent: game.script(level, agent, rng) for agent in game.acting})
    return game.reward("player_0")


def test_players_are_graded_and_solve_what_is_fully_told():
    tasks = [f"test/{i}" for i in range(80)]
    random, sharer, expert = (
        np.mean([play(level, task) for task in tasks]) for level in EinsteinPuzzle.levels
    )
    assert random < 0.4 and random + 0.2 < sharer < expert
    for level in ("sharer", "expert"):
        assert all(play(level, task, rounds=7) == 1 for task in tasks[:20])


def test_the_menu_and_bad_arguments():
    game = EinsteinPuzzle(speech="menu", num_players=3)
    game.begin("train/0")
    assert game.steps["player_2"].admissible == (*game.state.hands[2], QUIET)
    game.play(dict.fromkeys(game.acting, QUIET) | {"player_1": "hello"})
    assert game.acting == ("player_1",)
    bad: list[dict[str, Any]] = [{"houses": 2}, {"attributes": 5}, {"rounds": 0}, {"speech": "no"}]
    for wrong in bad:
        with pytest.raises(ValueError):
            EinsteinPuzzle(**wrong)
    with pytest.raises(ValueError, match="too many worlds"):
        EinsteinPuzzle(houses=5, attributes=4)
