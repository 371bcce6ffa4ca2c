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
Needs = tuple[int, ...]
"""The number of mines that each constraint still needs."""
Layer = dict[Needs, dict[int, int]]
"""The number of arrangements of some groups by needs and number of mines."""


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

    Groups are filled one after the other. Arrangements of the first ones that leave the same needs
    are counted together, so that large fields take no longer than their borders are wide.

    Returns:
        The number of arrangements by number of mines, and for each group of equivalent cells, the
        sum of mines in the group over these arrangements, by number of mines.
    """
    groups = _groups(known)
    members = {g: [i for i, (around, _) in enumerate(known) if g & around] for g in groups}
    order = _in_order(groups, members)
    room = [sum(g.bit_count() for g in order if g & around) for around, _ in known]
    layers: list[Layer] = [{tuple(count for _, count in known): {0: 1}}]
    moves: list[list[tuple[Needs, int, Needs]]] = []
    for group in order:
        inside, size = members[group], group.bit_count()
        for i in inside:
            room[i] -= size
        after: Layer = {}
        steps = []
        for needs, counts in layers[-1].items():
            for mines in range(min(size, *(needs[i] for i in inside)) + 1):
                if all(needs[i] - mines <= room[i] for i in inside):
                    left = tuple(n - mines * (i in inside) for i, n in enumerate(needs))
                    steps.append((needs, mines, left))
                    _add(after.setdefault(left, {}), counts, {mines: comb(size, mines)})
        layers.append(after)
        moves.append(steps)
    (ways,) = layers[-1].values()
    sums: dict[int, dict[int, int]] = {group: {} for group in groups}
    rest: Layer = {needs: {0: 1} for needs in layers[-1]}
    for group, steps, layer in zip(order[::-1], moves[::-1], layers[-2::-1], strict=True):
        size, before = group.bit_count(), {}
        for needs, mines, left in steps:
            if left not in rest:  # no later groups complete it
                continue
            later = _convolved(rest[left], {mines: comb(size, mines)})
            _add(before.setdefault(needs, {}), later, {0: 1})
            if mines:
                _add(sums[group], layer[needs], {n: mines * w for n, w in later.items()})
        rest = before
    return ways, sums


def _in_order(groups: list[int], members: dict[int, list[int]]) -> list[int]:
    """Returns groups in an order in which few constraints at a time have some of their groups."""
    left = {i: sum(i in members[g] for g in groups) for g in groups for i in members[g]}
    order: list[int] = []
    begun: set[int] = set()
    waiting = list(groups)
    while waiting:
        # The fewest new constraints, and the most that are complete with it.
        costs = [
            sum((i not in begun) - (left[i] == 1) for i in members[group]) for group in waiting
        ]
        group = waiting.pop(costs.index(min(costs)))
        order.append(group)
        begun.update(members[group])
        for i in members[group]:
            left[i] -= 1
    return order


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
    _add(found, a, b)
    return found


def _add(found: dict[int, int], a: dict[int, int], b: dict[int, int]) -> None:
    """Adds the convolution of two counts to a third one."""
    for m, x in a.items():
        for n, y in b.items():
            found[m + n] = found.get(m + n, 0) + x * y
