"""Logical and probabilistic inference about mines.

Cells are numbered row by row. Sets of cells are integers with one bit per cell.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import combinations
from math import comb

Constraint = tuple[int, int]
"""A set of closed cells and the number of mines among them."""


@cache
def neighbours(rows: int, columns: int) -> tuple[int, ...]:
    """Returns the neighbours of each cell."""
    around = []
    for row in range(rows):
        for column in range(columns):
            near = 0
            for r in range(max(row - 1, 0), min(row + 2, rows)):
                for c in range(max(column - 1, 0), min(column + 2, columns)):
                    near |= 1 << r * columns + c
            around.append(near & ~(1 << row * columns + column))
    return tuple(around)


def cells(which: int) -> Iterator[int]:
    """Yields the numbers of the cells of a set."""
    while which:
        lowest = which & -which
        yield lowest.bit_length() - 1
        which ^= lowest


def opened_with(cell: int, near: tuple[int, ...], mines: int, opened: int) -> int:
    """Returns the open cells after opening a safe cell. Cells without adjacent mines spread."""
    waiting = 1 << cell
    while waiting:
        lowest = waiting & -waiting
        waiting ^= lowest
        opened |= lowest
        around = near[lowest.bit_length() - 1]
        if not around & mines:
            waiting |= around & ~opened
    return opened


def constraints(near: tuple[int, ...], mines: int, opened: int) -> list[Constraint]:
    """Returns the constraints of the total number of mines and of the open cells."""
    closed = (1 << len(near)) - 1 & ~opened
    found = [(closed, mines.bit_count())]
    for cell in cells(opened):
        around = near[cell] & closed
        if around:
            found.append((around, (near[cell] & mines).bit_count()))
    return found


def deduce(known: list[Constraint]) -> tuple[int, int]:
    """Returns the cells proven to be safe and the cells proven to be mines.

    Uses single constraints first, then pairs of constraints of which one contains the other.
    """
    safe = mined = 0
    while True:
        left: dict[int, int] = {}
        before = safe, mined
        for around, count in known:
            around, count = around & ~safe & ~mined, count - (around & mined).bit_count()
            if around and count == 0:
                safe |= around
            elif around and count == around.bit_count():
                mined |= around
            elif around:
                left[around] = count
        if (safe, mined) == before:
            for (a, m), (b, n) in combinations(left.items(), 2):
                inner, rest, more = (a, b & ~a, n - m) if a & b == a else (b, a & ~b, m - n)
                if a & b == inner and more == 0:
                    safe |= rest
                elif a & b == inner and more == rest.bit_count():
                    mined |= rest
        if (safe, mined) == before:
            return safe, mined


def solvable(first: int, near: tuple[int, ...], mines: int) -> bool:
    """Returns whether `deduce` suffices to open all safe cells from the first one."""
    safe_cells = ((1 << len(near)) - 1) & ~mines
    opened = opened_with(first, near, mines, 0)
    while opened != safe_cells:
        safe, _ = deduce(constraints(near, mines, opened))
        if not safe:
            return False
        for cell in cells(safe):
            opened = opened_with(cell, near, mines, opened)
    return True


def risks(known: list[Constraint]) -> dict[int, float]:
    """Returns the mine probability of each closed cell, with a uniform prior over arrangements.

    Args:
        known: constraints. The first one is the total number of mines in closed cells.
    """
    (closed, mines), local = known[0], known[1:]
    parts = [_arrangements(part) for part in _components(local)]
    inner = 0
    for around, _ in local:
        inner |= around
    outside = closed & ~inner
    size = outside.bit_count()
    free = {n: comb(size, n) for n in range(size + 1)}
    found: dict[int, float] = {}
    for i, (_, weights) in enumerate(parts):
        others = free
        for j, (ways, _) in enumerate(parts):
            others = _convolved(others, ways) if i != j else others
        total = sum(ways * others.get(mines - n, 0) for n, ways in parts[i][0].items())
        for group, by_count in weights.items():
            hit = sum(w * others.get(mines - n, 0) for n, w in by_count.items())
            found |= dict.fromkeys(cells(group), hit / (total * group.bit_count()))
    if size:
        expected = mines - sum(found.values())
        found |= dict.fromkeys(cells(outside), expected / size)
    return found


def _components(known: list[Constraint]) -> list[list[Constraint]]:
    """Returns the constraints grouped into components that share no cell."""
    parts: list[tuple[int, list[Constraint]]] = []
    for around, count in known:
        joined, together = around, [(around, count)]
        apart = []
        for union, part in parts:
            if union & around:
                joined, together = joined | union, together + part
            else:
                apart.append((union, part))
        parts = [*apart, (joined, together)]
    return [part for _, part in parts]


def _arrangements(known: list[Constraint]) -> tuple[dict[int, int], dict[int, dict[int, int]]]:
    """Counts the arrangements that satisfy all constraints, by number of mines.

    Returns:
        The number of arrangements by number of mines, and for each group of equivalent cells, the
        sum of mines in the group over these arrangements, by number of mines.
    """
    groups = _groups(known)
    members = [[i for i, (around, _) in enumerate(known) if group & around] for group in groups]
    room = [0] * len(known)
    for group, inside in zip(groups, members, strict=True):
        for i in inside:
            room[i] += group.bit_count()
    need = [count for _, count in known]
    ways: dict[int, int] = {}
    sums: dict[int, dict[int, int]] = {group: {} for group in groups}
    chosen: list[int] = []

    def place(index: int, total: int, weight: int) -> None:
        if index == len(groups):
            ways[total] = ways.get(total, 0) + weight
            for group, count in zip(groups, chosen, strict=True):
                sums[group][total] = sums[group].get(total, 0) + weight * count
            return
        inside, size = members[index], groups[index].bit_count()
        for i in inside:
            room[i] -= size
        for count in range(min(size, *(need[i] for i in inside)) + 1):
            if all(need[i] - count <= room[i] for i in inside):
                for i in inside:
                    need[i] -= count
                chosen.append(count)
                place(index + 1, total + count, weight * comb(size, count))
                chosen.pop()
                for i in inside:
                    need[i] += count
        for i in inside:
            room[i] += size

    place(0, 0, 1)
    return ways, sums


def _groups(known: list[Constraint]) -> list[int]:
    """Returns the cells grouped into sets that occur in the same constraints."""
    groups: list[int] = []
    for around, _ in known:
        rest = around
        for group in groups.copy():
            if group & around and group & ~around:
                groups[groups.index(group)] = group & around
                groups.append(group & ~around)
            rest &= ~group
        if rest:
            groups.append(rest)
    return groups


def _convolved(a: dict[int, int], b: dict[int, int]) -> dict[int, int]:
    found: dict[int, int] = {}
    for m, x in a.items():
        for n, y in b.items():
            found[m + n] = found.get(m + n, 0) + x * y
    return found
