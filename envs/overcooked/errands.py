"""Macro actions ("errands") of several cooks, executed asynchronously.

While one cook is on an errand, co-players finish theirs and start new ones.
"""

from __future__ import annotations

import heapq
from functools import lru_cache

from agentgym.envs.overcooked.brigade import (
    ITEMS,
    Cook,
    Layout,
    State,
    in_view,
    is_chopped,
    lies,
    look,
    primitive,
)
from agentgym.envs.overcooked.kitchen import (
    CHOPS,
    FOODS,
    RIGHT,
    SEARCH,
    STAY,
    STEPS,
    Rewards,
    Square,
)

MOVES = ("right", "down", "left", "up")
BOARDS = ("go to board 1", "go to board 2")


def errands_of(layout: Layout) -> tuple[str, ...]:
    """Returns the macro actions of a kitchen, in the order of the reference."""
    gets = tuple(f"get {name}" for name in ITEMS)
    counter = ("go to counter",) if layout.wall else ()
    return ("stay", *gets, *BOARDS, "deliver", "chop", *counter, *MOVES)


def tick(layout: Layout, state: State, order: str, rewards: Rewards, radius: int) -> float:
    """Plays one primitive step of all errands, clears finished ones and returns the reward."""
    moves = []
    for cook in state.cooks:
        move, done = next_move(layout, state, cook, radius)
        moves.append(move)
        if done:
            cook.errand = ""
    reward = primitive(layout, state, moves, order, rewards)
    look(layout, state, radius)
    for cook in state.cooks:
        if cook.errand and _finished(layout, state, cook):
            cook.errand = ""
    return reward


def next_move(layout: Layout, state: State, cook: Cook, radius: int) -> tuple[int, bool]:
    """Returns the primitive move of a cook on its errand, and whether it is the last."""
    errand = cook.errand
    if errand == "stay":
        return STAY, True
    if errand == "chop":
        return _chop(layout, state, cook)
    if errand in MOVES:
        move = MOVES.index(errand)
        return (move if _free(layout, cook, _ahead(cook, move)) else STAY), True
    if errand == "go to counter":
        target = free_counter(layout, cook)
        if target is None:
            return STAY, True
        return way(layout, cook, target), _distance(cook, target) == 1
    if errand == "deliver" and cook.at == (1, 1) and (2, 1) in _cooks(cook):
        return RIGHT, False  # lets the cook below pass
    target = _target(layout, cook)
    if errand.removeprefix("get ") in FOODS and in_view(cook, target, radius):
        if any(state.where[bowl] == target for bowl in state.inside):
            return STAY, True  # it is in a bowl
    if target == (1, 0) and cook.at == (3, 1) and (2, 1) in _cooks(cook):
        return RIGHT, False
    if target in _cooks(cook) and in_view(cook, target, radius):
        return STAY, True  # a cook holds it
    move = way(layout, cook, target)
    if _distance(cook, target) != 1:
        return move, move == STAY
    return _at_the_target(layout, state, cook, target, move)


def _at_the_target(
    layout: Layout, state: State, cook: Cook, target: Square, move: int
) -> tuple[int, bool]:
    """Returns the last move of an errand, into the target, or STAY if it would do harm."""
    name = cook.errand.removeprefix("get ")
    done = True
    if name in state.inside and cook.holding in FOODS:
        # A chopped food goes in first, then the bowl is taken.
        done = not is_chopped(state, cook.holding)
        move = STAY if done else move
    if cook.errand in BOARDS and not cook.holding:
        move = STAY
    if name in FOODS and target in layout.boards:
        there = lies(state, target)
        if there in FOODS and not is_chopped(state, there):
            move = STAY
    if name in ITEMS and state.where[name] != target:
        move = STAY
    return move, done


def _finished(layout: Layout, state: State, cook: Cook) -> bool:
    """Whether the current observation of the cook ends its errand early."""
    errand, name = cook.errand, cook.errand.removeprefix("get ")
    if name in ITEMS and cook.seen[name] != state.where[name]:
        return True
    target = _target(layout, cook) if errand != "chop" and errand != "go to counter" else None
    if target is None or _distance(cook, target) != 1:
        return False
    if errand in BOARDS or errand == "deliver":
        return not cook.holding
    return name in FOODS and target in layout.boards and not is_chopped(state, name)


def _chop(layout: Layout, state: State, cook: Cook) -> tuple[int, bool]:
    for move in range(4):
        square = _ahead(cook, move)
        if square in layout.boards:
            there = lies(state, square)
            if there in FOODS and not is_chopped(state, there):
                cook.chops = (cook.chops + 1) % CHOPS
                return move, cook.chops == 0
    return STAY, True


def free_counter(layout: Layout, cook: Cook) -> Square | None:
    """Returns the counter of the wall on which the cook puts items, or None if all are taken."""
    taken = {cook.seen[name] for name in ITEMS}
    return next((square for square in layout.wall if square not in taken), None)


def _target(layout: Layout, cook: Cook) -> Square:
    errand = cook.errand
    if errand == "deliver":
        return layout.delivery
    if errand in BOARDS:
        return layout.boards[BOARDS.index(errand)]
    return cook.seen[errand.removeprefix("get ")]


def _ahead(cook: Cook, move: int) -> Square:
    return cook.at[0] + STEPS[move][0], cook.at[1] + STEPS[move][1]


def _distance(cook: Cook, square: Square) -> int:
    return abs(cook.at[0] - square[0]) + abs(cook.at[1] - square[1])


def _cooks(cook: Cook) -> frozenset[Square]:
    """Returns the remembered squares of all cooks, including this one."""
    return frozenset(square for name, square in cook.seen.items() if name not in ITEMS)


def _free(layout: Layout, cook: Cook, square: Square) -> bool:
    return square in layout.floor and square not in cook.seen.values()


def way(layout: Layout, cook: Cook, target: Square) -> int:
    """Returns the first move of a shortest path into a square, or STAY if there is none."""
    cooks = _cooks(cook)
    items = frozenset(cook.seen[name] for name in ITEMS) & layout.floor
    return _search(layout.floor, cook.at, target, cooks, items - cooks)


class _Node(tuple[int, ...]):
    """(estimated length, whether a cook is there, steps, row, column, first move).

    Equal nodes compare as smaller, which reproduces the search order of the reference.
    """

    __slots__ = ()

    def __lt__(self, other: tuple[int, ...]) -> bool:
        return self[:2] <= other[:2]


@lru_cache(maxsize=1 << 16)
def _search(
    floor: frozenset[Square],
    start: Square,
    target: Square,
    cooks: frozenset[Square],
    blocked: frozenset[Square],
) -> int:
    """A* with the Manhattan distance. Squares with cooks are passable but expanded later."""

    def guess(row: int, column: int) -> int:
        return abs(row - target[0]) + abs(column - target[1])

    queue = [_Node((guess(*start), 0, 0, *start, STAY))]
    visited = {start}
    while queue:
        _, _, steps, row, column, first = heapq.heappop(queue)
        for move in SEARCH:
            to = row + STEPS[move][0], column + STEPS[move][1]
            if to in visited:
                continue
            begun = move if first == STAY else first
            if to == target:
                return begun
            if to in floor and to not in blocked:
                visited.add(to)
                node = _Node((steps + 1 + guess(*to), to in cooks, steps + 1, *to, begun))
                heapq.heappush(queue, node)
    return STAY
