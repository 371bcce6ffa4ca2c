"""Several cooks: every recorded step of the reference, and collisions."""

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
    """Returns the reference's observation of a cook with macro actions. Unseen entries are zero."""
    found: list[float] = []
    for i, (row, column) in enumerate(positions(layout, state)):
        seen = in_view(cook, (row, column), radius)
        found += [row / layout.size, column / layout.size] if seen else [0, 0]
        found += [seen * state.chops[ITEMS[i]] / CHOPS] if i < len(state.chops) else []
    return [*found, *(float(order == known) for known in ORDERS)]


@pytest.mark.skipif(not GOLDEN.exists(), reason="needs the golden records")
def test_every_recorded_step_is_the_reference_s():
    steps = 0
    with gzip.open(GOLDEN, "rt", encoding="utf-8") as file:
        for record in map(json.loads, file):
            steps += replay(record)
    assert steps > 2000


def replay(record: dict[str, Any]) -> int:
    kwargs, macro = record["kwargs"], bool(record["macro"])
    order, radius, size = kwargs["task"], kwargs["obs_radius"], kwargs["grid_dim"][0]
    layout = layout_of(kwargs["map_type"], size)
    cooks = len(record["positions"][0]) - len(ITEMS) - 3  # asked for two on 9 x 9, it has one
    state = fresh(layout, STARTS[size][:cooks])
    errands = errands_of(layout)
    observed: list[list[float]] = [[]] * cooks
    for i, actions in enumerate(record["actions"]):
        if macro:
            for cook, action in zip(state.cooks, actions, strict=False):
                cook.errand = cook.errand or errands[action]
            reward = tick(layout, state, order, RULES, radius)
            assert [not cook.errand for cook in state.cooks] == record["mac_done"][i][:cooks]
        else:
            reward = primitive(layout, state, actions, order, RULES)
        assert reward == pytest.approx(record["rewards"][i], abs=1e-9)
        assert positions(layout, state) == record["positions"][i]
        assert state.served == record["dones"][i]
        for j, cook in enumerate(state.cooks):
            if not cook.errand:  # cooks on an errand keep their last observation
                observed[j] = vector(layout, state, order, cook, radius)
    if macro or not radius:
        for ours, theirs in zip(observed, record["obs_last"], strict=False):
            assert ours == pytest.approx(theirs, abs=1e-6) or not ours
    return len(record["actions"])


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
