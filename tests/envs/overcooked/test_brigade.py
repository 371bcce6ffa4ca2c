"""Several cooks: recorded steps of the reference, collisions, beliefs."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.envs.overcooked.brigade import (
    ITEMS,
    STARTS,
    Cook,
    Layout,
    State,
    fresh,
    in_view,
    layout_of,
    lies,
    look,
    primitive,
)
from agentgym.envs.overcooked.errands import errands_of, tick
from agentgym.envs.overcooked.kitchen import CHOPS, DOWN, LEFT, RIGHT, STAY, UP, Square
from agentgym.envs.overcooked.salad import REWARDS

GOLDEN = Path(__file__).parents[4] / "shared" / "golden" / "overcooked_multiagent.jsonl.gz"
ORDERS = (
    "tomato salad",
    "lettuce salad",
    "onion salad",
    "lettuce-tomato salad",
    "onion-tomato salad",
    "lettuce-onion salad",
    "lettuce-onion-tomato salad",
)
TOMATO = "tomato salad"
RULES = REWARDS["original"]


def positions(layout: Layout, state: State) -> list[list[int]]:
    squares = [state.where[name] for name in ITEMS]
    squares += [*layout.boards, layout.delivery, *(cook.at for cook in state.cooks)]
    return [list(square) for square in squares]


def vector(layout: Layout, state: State, order: str, cook: Cook, radius: int) -> list[float]:
    """The reference's observation of a cook with macro actions: zeros for items out of sight."""
    found: list[float] = []
    for i, (row, column) in enumerate(positions(layout, state)):
        seen = in_view(cook, (row, column), radius)
        found += [row / layout.size, column / layout.size] if seen else [0, 0]
        found += [seen * state.chops[ITEMS[i]] / CHOPS] if i < len(state.chops) else []
    return [*found, *(float(order == known) for known in ORDERS)]


def believed(layout: Layout, state: State, cook: Cook) -> list[Square]:
    """The squares in the reference's observation with primitive actions and a radius."""
    squares = [cook.seen[name] for name in ITEMS]
    squares += [*layout.boards, layout.delivery]
    return squares + [cook.seen[str(number)] for number in range(len(state.cooks))]


@pytest.mark.skipif(not GOLDEN.exists(), reason="needs the golden records")
def test_recorded_steps_match_the_reference():
    steps = 0
    with gzip.open(GOLDEN, "rt", encoding="utf-8") as file:
        for record in map(json.loads, file):
            steps += replay(record)
    assert steps > 2000


def replay(record: dict[str, Any]) -> int:
    kwargs, macro = record["kwargs"], bool(record["macro"])
    order, radius, size = kwargs["task"], kwargs["obs_radius"], kwargs["grid_dim"][0]
    layout, cooks = layout_of(kwargs["map_type"], size), kwargs["n_agent"]
    state = fresh(layout, STARTS[size][:cooks])
    errands = errands_of(layout)
    observed: list[list[float]] = [[]] * cooks
    for cook, first in zip(state.cooks, record["obs0"], strict=True):
        whole = radius if macro else 0  # the first vector of primitive actions shows everything
        assert vector(layout, state, order, cook, whole) == pytest.approx(first, abs=1e-6)
    for i, actions in enumerate(record["actions"]):
        if macro:
            for cook, action in zip(state.cooks, actions, strict=True):
                cook.errand = cook.errand or errands[action]
            reward = tick(layout, state, order, RULES, radius)
            assert [not cook.errand for cook in state.cooks] == record["mac_done"][i]
        else:
            reward = primitive(layout, state, actions, order, RULES)
            look(layout, state, radius)
        assert reward == pytest.approx(record["rewards"][i], abs=1e-9)
        assert positions(layout, state) == record["positions"][i]
        assert state.served == record["dones"][i]
        for j, cook in enumerate(state.cooks):
            if not cook.errand:  # a cook on an errand keeps its last observation
                observed[j] = vector(layout, state, order, cook, radius)
    for ours, theirs, cook in zip(observed, record["obs_last"], state.cooks, strict=True):
        if macro or not radius:
            assert ours == pytest.approx(theirs, abs=1e-6) or not ours
        else:  # the fraction of chops, which the reference loses out of sight, is left out
            squares = zip(theirs[0:9:3], theirs[1:9:3], strict=True)
            others = zip(theirs[9:-7:2], theirs[10:-7:2], strict=True)
            found = [(round(row * size), round(col * size)) for row, col in (*squares, *others)]
            assert believed(layout, state, cook) == found
    return len(record["actions"])


RECORDED = (
    (
        *(7, "A", 2, 2),
        "34 01 40 00 11 31 23 02 11 20 02 21 01 20 41 42 34 43 42 31 00 00 32 11 "
        "02 11 11 02 12 04 31 00 22 44 31 00 21 11 33 12 31 01 32 02 32 13 12 03",
        (
            ("05 16 26 56 65 10 20 30 23 14", "05 16 54 56 65 10 20 30 24 54"),
            ("25 16 26 56 65 10 20 30 25 14", "05 16 64 56 54 10 20 30 12 54"),
            ("26 16 64 46 65 10 20 30 35 14", "05 16 64 56 52 10 20 30 45 52"),
            ("36 16 64 46 65 10 20 30 35 14", "05 16 64 56 61 10 20 30 34 31"),
        ),
    ),
    (
        *(9, "C", 3, 1),
        "400 120 130 040 300 100 403 011 303 332 020 213 332 400 123 044 "
        "030 332 431 010 030 300 442 203 442 024 223 311 110 132 040 221 "
        "330 240 211 011 310 003 130 210 321 330 011 100 023 033 000 304",
        (
            (
                "07 18 28 78 87 10 20 30 12 16 72",
                "07 18 26 78 87 10 20 30 12 26 72",
                "07 18 28 57 87 10 20 30 12 16 57",
            ),
            (
                "07 18 28 78 87 10 20 30 12 16 72",
                "07 17 06 78 87 10 20 30 12 17 72",
                "07 18 28 48 87 10 20 30 12 16 46",
            ),
            (
                "07 18 28 78 87 10 20 30 22 16 72",
                "07 24 06 78 87 10 20 30 12 35 72",
                "07 18 28 48 87 10 20 30 12 16 77",
            ),
            (
                "07 13 28 78 87 10 20 30 13 16 72",
                "07 24 06 48 87 10 20 30 12 37 72",
                "07 18 28 48 78 10 20 30 12 16 57",
            ),
        ),
    ),
)
"""Size, kitchen, cooks, radius, joint primitive moves, and the squares in the observation of every
cook after each 12 moves, recorded from Overcooked_V1 of gym-macro-overcooked."""


@pytest.mark.parametrize(("size", "map", "cooks", "radius", "moves", "squares"), RECORDED)
def test_primitive_moves_with_a_radius_match_the_reference(
    size: int, map: str, cooks: int, radius: int, moves: str, squares: tuple[tuple[str, ...], ...]
):
    layout = layout_of(map, size)
    state = fresh(layout, STARTS[size][:cooks])
    found = []
    for i, joint in enumerate(moves.split()):
        primitive(layout, state, [int(move) for move in joint], "lettuce-tomato salad", RULES)
        look(layout, state, radius)
        if i % 12 == 11:
            seen = [believed(layout, state, cook) for cook in state.cooks]
            found.append(tuple(" ".join(f"{r}{c}" for r, c in there) for there in seen))
    assert tuple(found) == squares


def kitchen(*squares: Square, map: str = "A") -> tuple[Layout, State]:
    layout = layout_of(map, 7)
    return layout, fresh(layout, squares)


@pytest.mark.parametrize(
    ("moves", "after"),
    [
        ((RIGHT, LEFT), ((3, 3), (3, 2))),  # cooks that face each other swap places
        ((RIGHT, STAY), ((3, 2), (3, 3))),
        ((RIGHT, RIGHT), ((3, 3), (3, 4))),  # the cook behind waits for the one in front
        ((RIGHT, UP), ((3, 3), (2, 3))),
    ],
)
def test_who_gives_way(moves: tuple[int, int], after: tuple[Square, Square]):
    layout, state = kitchen((3, 2), (3, 3))
    primitive(layout, state, moves, TOMATO, RULES)
    assert tuple(cook.at for cook in state.cooks) == after


def test_the_first_of_two_gets_the_free_square():
    layout, state = kitchen((3, 2), (3, 4))
    primitive(layout, state, (RIGHT, LEFT), TOMATO, RULES)
    assert [cook.at for cook in state.cooks] == [(3, 3), (3, 4)]


def test_a_salad_is_passed_over_the_wall_and_served():
    layout, state = kitchen((3, 2), (1, 5), map="B")
    total = 0.0

    def play(first: str, second: str) -> None:
        nonlocal total
        for cook, errand in zip(state.cooks, (first, second), strict=True):
            cook.errand = errand
        while any(cook.errand for cook in state.cooks):
            for cook in state.cooks:
                cook.errand = cook.errand or "stay"
            before = [cook.errand for cook in state.cooks]
            total += tick(layout, state, TOMATO, RULES, 2)
            if all(errand == "stay" for errand in before):
                return

    play("stay", "get tomato")
    play("stay", "go to counter")
    assert lies(state, (3, 3)) == "tomato"
    play("get tomato", "get bowl 1")
    play("go to board 1", "go to counter")
    play("chop", "stay")
    play("get tomato", "stay")
    assert state.where["bowl 1"] == (3, 3) and state.cooks[0].holding == "tomato"
    play("get bowl 1", "stay")
    assert state.inside["bowl 1"] == ["tomato"]
    play("deliver", "stay")
    assert state.served
    assert total == pytest.approx(10 + 200 - 0.1 * state.steps)


def test_what_is_served_wrongly_returns_home_unchopped():
    layout, state = kitchen((3, 1))
    cook = state.cooks[0]
    cook.holding, state.top[0][5], state.chops["tomato"] = "tomato", "", CHOPS
    assert primitive(layout, state, [LEFT], TOMATO, RULES) == pytest.approx(-5.1)
    assert state.where["tomato"] == (0, 5) == layout.homes["tomato"]
    assert (lies(state, (0, 5)), state.chops["tomato"], cook.holding) == ("tomato", 0, "")


def test_what_is_out_of_sight_is_believed_where_it_was_until_seen_missing():
    layout, state = kitchen((5, 1), (1, 5))
    cook = state.cooks[0]
    primitive(layout, state, (STAY, UP), TOMATO, RULES)
    look(layout, state, 2)
    assert state.where["tomato"] == (1, 5) and cook.seen["tomato"] == (0, 5)
    for move in (DOWN, DOWN, LEFT, LEFT):
        primitive(layout, state, (STAY, move), TOMATO, RULES)
        look(layout, state, 2)
    assert cook.seen["tomato"] == cook.seen["1"] == (3, 3)
    for move in (RIGHT, UP, UP):
        primitive(layout, state, (STAY, move), TOMATO, RULES)
        look(layout, state, 2)
    assert cook.seen["tomato"] == (0, 5) and cook.seen["1"] == (1, 5)  # missing: back home


@settings(max_examples=60, deadline=None)
@given(
    kitchen=st.sampled_from("ABC"),
    size=st.sampled_from([7, 9]),
    cooks=st.integers(2, 3),
    radius=st.sampled_from([0, 2]),
    errands=st.lists(st.tuples(*[st.integers(0, 14)] * 3), max_size=60),
)
def test_nothing_is_lost_or_doubled(kitchen, size, cooks, radius, errands):
    layout = layout_of(kitchen, size)
    state = fresh(layout, STARTS[size][:cooks])
    names = errands_of(layout)
    for numbers in errands:
        if state.served:
            break
        for cook, number in zip(state.cooks, numbers, strict=False):
            cook.errand = cook.errand or names[number % len(names)]
        tick(layout, state, "lettuce-tomato salad", RULES, radius)
        assert len({cook.at for cook in state.cooks}) == cooks
        assert all(cook.at in layout.floor for cook in state.cooks)
        held = [cook.holding for cook in state.cooks if cook.holding]
        inside = [food for foods in state.inside.values() for food in foods]
        assert len({*held, *inside}) == len(held) + len(inside)
        for name in set(ITEMS) - {*held, *inside}:
            assert state.where[name] not in layout.floor
