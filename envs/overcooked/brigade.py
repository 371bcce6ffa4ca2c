"""The kitchen of several cooks: simultaneous moves on a grid, as pure functions of a `State`.

Coordinates are (row, column). Moves, foods and rewards come from `kitchen`. There are two bowls,
and cooks block each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

from agentgym.envs.overcooked.kitchen import CHOPS, FOODS, ORDER, STAY, STEPS, Rewards, Square

ITEMS = (*FOODS, "bowl 1", "bowl 2")
STARTS = {7: ((1, 2), (1, 4), (5, 2)), 9: ((1, 2), (1, 6), (7, 2))}
"""Initial squares of the cooks in the reference, by grid size."""


@dataclass(frozen=True)
class Layout:
    """The static part of a kitchen.

    Attributes:
        size: rows and columns of the grid.
        floor: squares that can be walked on.
        boards: the two cutting boards.
        delivery: the delivery counter.
        homes: initial square of each of `ITEMS`.
        wall: counters that divide the kitchen, in the order of use.
    """

    size: int
    floor: frozenset[Square]
    boards: tuple[Square, Square]
    delivery: Square
    homes: dict[str, Square]
    wall: tuple[Square, ...]


@cache
def layout_of(kitchen: str, size: int) -> Layout:
    """Returns a kitchen: "A" is open, "B" has a dividing wall, "C" has a wall with a gap."""
    middle, last = size // 2, size - 2
    rows = sorted(range(1, size - 1), key=lambda row: (abs(row - middle), row))
    walled = {"A": [], "B": rows, "C": [row for row in rows if row != last]}[kitchen]
    wall = tuple((row, middle) for row in walled)
    inner = range(1, size - 1)
    homes = ((0, size - 2), (1, size - 1), (2, size - 1), (last, size - 1), (size - 1, last))
    return Layout(
        size=size,
        floor=frozenset((r, c) for r in inner for c in inner if (r, c) not in wall),
        boards=((1, 0), (2, 0)),
        delivery=(3, 0),
        homes=dict(zip(ITEMS, homes, strict=True)),
        wall=wall,
    )


@dataclass
class Cook:
    """One cook.

    Attributes:
        at: its square.
        holding: item in its hands, or "".
        errand: macro action in progress, or "" if the cook needs a new one.
        chops: chops of the current "chop" errand.
        seen: square of each item and cook as remembered by this cook.
        chopped: number of chops of each food as remembered by this cook.
        said: its message at its last action.
        heard: messages of co-players since then.
    """

    at: Square
    holding: str = ""
    errand: str = ""
    chops: int = 0
    seen: dict[str, Square] = field(default_factory=dict)
    chopped: dict[str, int] = field(default_factory=dict)
    said: str = ""
    heard: list[str] = field(default_factory=list)


@dataclass
class State:
    """The dynamic part of a kitchen.

    Attributes:
        cooks: the cooks.
        where: square of each item. Held items and foods in bowls have the square of their holder
            or bowl.
        top: topmost item on each square, or "". An item that returns home covers other items.
        chops: chops of each food so far.
        inside: foods in each bowl.
        starts: initial squares of the cooks.
        steps: primitive steps so far.
        served: whether the right dish was delivered.
        paid: foods whose chopping was rewarded, in alphabetical order.
    """

    cooks: list[Cook]
    where: dict[str, Square]
    top: list[list[str]]
    chops: dict[str, int]
    inside: dict[str, list[str]]
    starts: list[Square]
    steps: int = 0
    served: bool = False
    paid: list[str] = field(default_factory=list)


def fresh(layout: Layout, starts: Sequence[Square]) -> State:
    """Returns the initial state of a kitchen."""
    top = [[""] * layout.size for _ in range(layout.size)]
    for name, (row, column) in layout.homes.items():
        top[row][column] = name
    state = State(
        cooks=[Cook(square) for square in starts],
        where=dict(layout.homes),
        top=top,
        chops=dict.fromkeys(FOODS, 0),
        inside={"bowl 1": [], "bowl 2": []},
        starts=list(starts),
    )
    look(layout, state, 0)  # all cooks know the initial state
    return state


def lies(state: State, square: Square) -> str:
    """Returns the topmost item on a counter or board, or ""."""
    name = state.top[square[0]][square[1]]
    if name == "bowl 2" and state.where["bowl 1"] == square:
        return "bowl 1"  # of two bowls on one square the first is found
    return name


def is_chopped(state: State, name: str) -> bool:
    """Whether an item is a chopped food."""
    return state.chops.get(name, 0) >= CHOPS


def in_view(cook: Cook, square: Square, radius: int) -> bool:
    """Whether the cook sees a square. A radius of 0 means full visibility."""
    if not radius:
        return True
    return max(abs(square[0] - cook.at[0]), abs(square[1] - cook.at[1])) <= radius


def look(layout: Layout, state: State, radius: int) -> None:
    """Updates the beliefs of the cooks with their current observations."""
    true = state.where | {str(number): cook.at for number, cook in enumerate(state.cooks)}
    if not radius:
        for cook in state.cooks:
            cook.seen, cook.chopped = dict(true), dict(state.chops)
        return
    home = layout.homes | {str(number): square for number, square in enumerate(state.starts)}
    for cook in state.cooks:
        for name, square in true.items():
            if in_view(cook, square, radius):
                cook.seen[name] = square
                if name in state.chops:
                    cook.chopped[name] = state.chops[name]
            elif in_view(cook, cook.seen[name], radius):
                # Not at its remembered square: assume that it is back at its origin.
                cook.seen[name] = home[name]
                if name in state.chops:
                    cook.chopped[name] = 0


def primitive(
    layout: Layout, state: State, moves: Sequence[int], order: str, rewards: Rewards
) -> float:
    """Applies one primitive move of every cook and returns their shared reward.

    Cooks move one after the other. A cook whose target square is occupied lets the occupant move
    first, and two cooks who walk towards each other swap places.
    """
    state.steps += 1
    reward, cooks = rewards.step, state.cooks
    moved: set[int] = set()
    while len(moved) < len(cooks):
        for number, cook in enumerate(cooks):
            if number in moved:
                continue
            moved.add(number)
            if moves[number] == STAY:
                continue
            to = _ahead(cook, moves[number])
            there = next((i for i, other in enumerate(cooks) if other.at == to), None)
            if there is not None:
                if there in moved:
                    continue
                if moves[there] != STAY and _ahead(cooks[there], moves[there]) == cook.at:
                    _walk(state, cooks[there], cook.at)
                    _walk(state, cook, to)
                    moved.add(there)
                else:
                    moved.discard(number)
            elif to in layout.floor:
                _walk(state, cook, to)
            elif to == layout.delivery:
                reward += _deliver(layout, state, cook, order, rewards)
            elif to in layout.boards:
                reward += _use_board(state, cook, to, order, rewards)
            else:
                _use_counter(state, cook, to)
    return reward


def _ahead(cook: Cook, move: int) -> Square:
    return cook.at[0] + STEPS[move][0], cook.at[1] + STEPS[move][1]


def _walk(state: State, cook: Cook, to: Square) -> None:
    cook.at = to
    if cook.holding:
        _place(state, cook.holding, to)


def _place(state: State, name: str, square: Square) -> None:
    state.where[name] = square
    for food in state.inside.get(name, ()):
        state.where[food] = square


def _set(state: State, square: Square, name: str) -> None:
    state.top[square[0]][square[1]] = name


def _take(state: State, cook: Cook, square: Square) -> None:
    cook.holding = lies(state, square)
    _place(state, cook.holding, cook.at)
    _set(state, square, "")


def _put(state: State, cook: Cook, square: Square) -> None:
    _place(state, cook.holding, square)
    _set(state, square, cook.holding)
    cook.holding = ""


def _fill(state: State, bowl: str, food: str) -> None:
    state.inside[bowl].append(food)
    state.where[food] = state.where[bowl]


def _use_counter(state: State, cook: Cook, square: Square) -> None:
    there, held = lies(state, square), cook.holding
    if not held:
        if there:
            _take(state, cook, square)
    elif not there:
        _put(state, cook, square)
    elif there in state.inside and is_chopped(state, held):
        cook.holding = ""
        _fill(state, there, held)
    elif held in state.inside and is_chopped(state, there):
        _set(state, square, "")
        _fill(state, held, there)


def _use_board(state: State, cook: Cook, square: Square, order: str, rewards: Rewards) -> float:
    there, held = lies(state, square), cook.holding
    if not held:
        if there in state.inside or is_chopped(state, there):
            _take(state, cook, square)
        elif there:
            state.chops[there] += 1
            return rewards.of_chop(there, order, state.paid) if is_chopped(state, there) else 0.0
    elif not there:
        _put(state, cook, square)
    elif held in state.inside and is_chopped(state, there):
        _set(state, square, "")
        _fill(state, held, there)
    elif there in state.inside and is_chopped(state, held):
        _take(state, cook, square)
        _fill(state, there, held)
    return 0.0


def _deliver(layout: Layout, state: State, cook: Cook, order: str, rewards: Rewards) -> float:
    held = cook.holding
    if not held:
        return 0.0
    inside = state.inside.get(held, [])
    if inside and "-".join(name for name in ORDER if name in inside) + " salad" == order:
        state.served = True
        _put(state, cook, layout.delivery)
        return rewards.served
    for name in (held, *inside):
        state.where[name] = layout.homes[name]
        _set(state, layout.homes[name], name)
        if name in state.chops:
            state.chops[name] = 0
    inside.clear()
    cook.holding = ""
    return rewards.wrong
