"""Minesweeper: risks against enumeration, and solvable fields that need no guess."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from agentgym.envs.puzzle.mines import (
    cells,
    constraints,
    deduce,
    neighbours,
    opened_with,
    risks,
    solvable,
)
from agentgym.envs.puzzle.minesweeper import LEGEND, Minesweeper, cell_of, lay_mines


def test_neighbours_of_corner_edge_and_middle():
    near = neighbours(3, 4)
    assert set(cells(near[0])) == {1, 4, 5}
    assert set(cells(near[7])) == {2, 3, 6, 10, 11}
    assert set(cells(near[5])) == {0, 1, 2, 4, 6, 8, 9, 10}


def counted(near: tuple[int, ...], mines: int, opened: int) -> dict[int, float]:
    """Returns the risks by enumerating all fields with the same observation."""
    closed = [cell for cell in range(len(near)) if not opened >> cell & 1]
    hits, fields = dict.fromkeys(closed, 0), 0
    for chosen in combinations(closed, mines.bit_count()):
        other = sum(1 << cell for cell in chosen)
        if all(
            (near[c] & mines).bit_count() == (near[c] & other).bit_count() for c in cells(opened)
        ):
            fields += 1
            for cell in chosen:
                hits[cell] += 1
    return {cell: hit / fields for cell, hit in hits.items()}


def random_views(count: int, shape: tuple[int, int], mines: int):
    rng, near = np.random.default_rng(0), neighbours(*shape)
    for number in range(count):
        first = int(rng.integers(len(near)))
        laid = lay_mines(f"test/{number}", first, shape, mines, must_solve=False)
        opened = opened_with(first, near, laid, 0)
        for cell in rng.permutation(len(near))[: int(rng.integers(5))].tolist():
            if not laid >> cell & 1:
                opened = opened_with(cell, near, laid, opened)
        if (laid | opened).bit_count() < len(near):
            yield near, laid, opened


@pytest.mark.parametrize(("shape", "mines"), [((4, 4), 4), ((4, 5), 5), ((4, 5), 3), ((5, 4), 7)])
def test_risks_are_those_of_counting_all_fields(shape: tuple[int, int], mines: int):
    for near, laid, opened in random_views(25, shape, mines):
        known = constraints(near, laid, opened)
        assert risks(known) == pytest.approx(counted(near, laid, opened))


def test_what_is_deduced_is_certain():
    found = 0
    for near, laid, opened in random_views(60, (4, 5), 5):
        known = constraints(near, laid, opened)
        safe, mined = deduce(known)
        found += safe.bit_count() + mined.bit_count()
        risk = risks(known)
        assert all(risk[cell] == 0 for cell in cells(safe))
        assert all(risk[cell] == pytest.approx(1) for cell in cells(mined))
    assert found > 100


def test_the_risks_of_a_field_with_a_long_border_are_found():
    # One at a time, its arrangements cannot be counted.
    shape, mines = (16, 30), 120
    near, laid = neighbours(*shape), lay_mines("train/0", 0, shape, mines, must_solve=False)
    opened = opened_with(0, near, laid, 0)
    for cell in np.random.default_rng(0).permutation(len(near))[:110].tolist():
        if not laid >> cell & 1:
            opened = opened_with(cell, near, laid, opened)
    known = constraints(near, laid, opened)
    risk = risks(known)
    assert sum(risk.values()) == pytest.approx(mines)
    for around, count in known:
        assert sum(risk[cell] for cell in cells(around)) == pytest.approx(count)


def test_one_two_one_and_the_mines_that_are_left():
    # Numbers 1 2 1 below five closed cells: the mines are at the ones, the rest is safe.
    one_two_one = [(0b11111, 2), (0b00111, 1), (0b01110, 2), (0b11100, 1)]
    assert deduce(one_two_one) == (0b10101, 0b01010)
    assert deduce([(0b111, 1), (0b011, 1)]) == (0b100, 0)
    assert deduce([(0b11, 1)]) == (0, 0)


def test_fields_follow_from_the_task_and_the_first_cell_which_is_far_from_mines():
    near = neighbours(6, 6)
    for first in range(36):
        for must_solve in (False, True):
            mines = lay_mines("train/1", first, (6, 6), 7, must_solve)
            assert mines == lay_mines("train/1", first, (6, 6), 7, must_solve)
            assert mines.bit_count() == 7 and not mines & (near[first] | 1 << first)
            assert solvable(first, near, mines) or not must_solve
    assert not all(
        solvable(0, near, lay_mines(f"train/{i}", 0, (6, 6), 7, False)) for i in range(9)
    )


@pytest.mark.parametrize("kwargs", [{}, {"rows": 9, "columns": 7, "mines": 12}])
def test_the_expert_opens_every_solvable_field_from_any_first_cell(kwargs):
    env = Minesweeper(**kwargs)
    for seed in range(30):
        _, info = env.reset(seed=seed)
        first = info["admissible"][seed % len(info["admissible"])]
        _, reward, ended, _, info = env.step(first)
        while not ended:
            _, reward, ended, _, info = env.step(str(env.expert()))
        assert reward == 1 and info["success"] and info["progress"] == 1


def test_a_field_by_hand():
    env = Minesweeper(rows=4, columns=4, mines=2)
    env.reset(seed=0)
    text, *_, info = env.step("open 1 5")
    assert "column from 1 to 4" in text and not info["valid"]
    assert env.step("dig")[4]["valid"] is False
    for unclear in ("open 1 2 3", "open 1 2 or 3 4", "open 1.5 2", "open \u22121 2", "not 1 1"):
        assert env.step(unclear)[4]["valid"] is False
    env.state.mines = 1 << 2 | 1 << 10
    text, reward, ended, _, info = env.step("open 1 1")
    grid = "   1 2 3 4\n1  . 1 # #\n2  . 2 # #\n3  . 1 # #\n4  . 1 # #"
    assert text == f"{grid}\n2 mines, 6 safe cells to open." and not ended
    assert info["progress"] == 8 / 14 and len(info["admissible"]) == 8
    assert env.step("**open\u00a0\uff11 1**")[0].startswith("That cell is open already.")
    assert env.step("(1, 1)")[0].startswith("That cell is open already.")
    before = env.snapshot()
    text, reward, ended, _, info = env.step("1,3")
    assert ended and reward == 0 and not info["success"]
    assert text == grid.replace("1  . 1 #", "1  . 1 *") + "\nThat was a mine."
    assert env.state.struck == 1 << 2 and info["progress"] == 8 / 14
    assert [mark for row in env._frame().rows for mark in row].count(LEGEND["*"]) == 1
    env.restore(before)
    results = [env.step(f"open {cell}") for cell in ("2 3", "4 3", "1 4", "2 4", "3 4", "4 4")]
    assert [result[1] for result in results] == [0, 0, 0, 0, 0, 1]
    assert results[-1][0].endswith("All safe cells are open.") and results[-1][0].count("*") == 2


@pytest.mark.parametrize(
    ("kwargs", "named"),
    [
        ({"rows": 3}, "rows"),
        ({"columns": 31}, "columns"),
        ({"rows": 30, "columns": 30}, "at most 480"),
        ({"mines": 28}, "mines"),
        ({"mines": 0}, "mines"),
        ({"rows": 16, "columns": 30, "mines": 20}, "solvable=False"),
        ({"mines": 9}, "solvable=False"),
    ],
)
def test_impossible_arguments_are_refused(kwargs, named: str):
    with pytest.raises(ValueError, match=named):
        Minesweeper(**kwargs)


@pytest.mark.parametrize(
    "action",
    [
        "open 3 2", "3,2", "(3, 2)", "Open cell (3, 2).", "open row 3, column 2", "r3c2",
        "reveal row 3 and column 2", "open column 2, row 3", "c2 r3", "Move: open 3 2",
        "\\boxed{open 3 2}", "open (row=3, col=2)",
    ],
)  # fmt: skip
def test_rows_and_columns_may_have_names(action: str):
    assert cell_of(action) == (2, 1)


@pytest.mark.parametrize(
    "action",
    [
        "open 3", "open row 3", "flag 3 2", "do not open 3 2", "open 3 2 and 3 3", "open C2",
        "open 3 2 or 2 3", "open column 2, 3", "open row 3, row 2", "open -3 2", "open 3.2 1",
    ],
)  # fmt: skip
def test_anything_else_is_no_cell(action: str):
    assert cell_of(action) == (-1, -1)
