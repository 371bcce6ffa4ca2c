"""The kitchen of single-cook Overcooked: primitive moves on a grid, as pure functions of a `State`.

Coordinates are (row, column). An item is on a counter or a board, held, or in the bowl.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from functools import lru_cache

Square = tuple[int, int]

RIGHT, DOWN, LEFT, UP, STAY = range(5)
STEPS: tuple[Square, ...] = ((0, 1), (1, 0), (0, -1), (-1, 0), (0, 0))
SEARCH = (RIGHT, LEFT, DOWN, UP)
"""The order in which path finding expands neighbours."""
CHOPS = 3
FOODS = ("tomato", "lettuce", "onion")
ORDER = ("lettuce", "onion", "tomato")
"""The order of ingredients in the name of a salad."""


@dataclass(frozen=True)
class Layout:
    """The static part of a kitchen.

    Attributes:
        floor: squares that can be walked on.
        boards: the cutting boards.
        delivery: the delivery counter.
        homes: initial square of each item (foods and "bowl").
        start: initial square of the cook.
        wall: counters that divide the kitchen, in the order of use.
    """

    floor: frozenset[Square]
    boards: tuple[Square, ...]
    delivery: Square
    homes: dict[str, Square]
    start: Square
    wall: tuple[Square, ...] = ()


@dataclass(frozen=True)
class Rewards:
    """Rewards of a primitive step and of events (the values of TWOSOME and POAD).

    Attributes:
        step: reward of a primitive step.
        chopped: reward of the chop that finishes a food of the order.
        served: reward of serving the right dish.
        wrong: reward of serving anything else.
        again: whether a food that has returned to its place pays once more when it is chopped, as
            in the reference. Serving chopped food and chopping it once more is then profitable.
    """

    step: float = -0.001
    chopped: float = 0.2
    served: float = 1.0
    wrong: float = -0.1
    again: bool = False

    def of_chop(self, food: str, order: str, paid: list[str]) -> float:
        """Returns the reward of finishing a food, and adds the food to those that were paid."""
        if food not in order or (food in paid and not self.again):
            return 0.0
        if food not in paid:
            paid.append(food)
            paid.sort()  # the order of the chops does not matter
        return self.chopped


@dataclass
class State:
    """The dynamic part of a kitchen.

    Attributes:
        cook: square of the cook.
        where: square of each item. Items in the bowl have the square of the bowl.
        chops: chops of each food so far.
        holding: item in the hands of the cook, or "".
        bowl: foods in the bowl.
        believed: square of each item as remembered by the cook.
        steps: primitive steps so far.
        took: primitive steps of the last macro action.
        served: whether the right dish was delivered.
        paid: foods whose chopping was rewarded, in alphabetical order.
    """

    cook: Square
    where: dict[str, Square]
    chops: dict[str, int]
    holding: str = ""
    bowl: list[str] = field(default_factory=list)
    believed: dict[str, Square] = field(default_factory=dict)
    steps: int = 0
    took: int = 0
    served: bool = False
    paid: list[str] = field(default_factory=list)


def fresh(layout: Layout) -> State:
    """Returns the initial state of a kitchen."""
    foods = [name for name in layout.homes if name != "bowl"]
    where = dict(layout.homes)
    return State(layout.start, where, dict.fromkeys(foods, 0), believed=dict(where))


def lies(state: State, square: Square) -> str:
    """Returns the item on a square: a food, "bowl" or ""."""
    for name, there in state.where.items():
        if there == square and name != state.holding and name not in state.bowl:
            return name
    return ""


def chopped(state: State, name: str) -> bool:
    """Whether an item is a chopped food."""
    return state.chops.get(name, 0) >= CHOPS


def visible(state: State, square: Square, radius: int) -> bool:
    """Whether the cook sees a square. A radius of 0 means full visibility."""
    if not radius:
        return True
    return max(abs(square[0] - state.cook[0]), abs(square[1] - state.cook[1])) <= radius


def primitive(layout: Layout, state: State, move: int, task: str, rewards: Rewards) -> float:
    """Applies a primitive move and returns its reward."""
    state.steps += 1
    reward = rewards.step
    to = state.cook[0] + STEPS[move][0], state.cook[1] + STEPS[move][1]
    if move == STAY:
        return reward
    if to in layout.floor:
        state.cook = to
        _carry(state)
    elif to == layout.delivery:
        reward += _deliver(layout, state, task, rewards)
    elif to in layout.boards:
        reward += _use_board(state, to, task, rewards)
    else:
        _use_counter(state, to)
    return reward


def _carry(state: State) -> None:
    if state.holding:
        state.where[state.holding] = state.cook
        if state.holding == "bowl":
            for name in state.bowl:
                state.where[name] = state.cook


def _take(state: State, name: str) -> None:
    state.holding = name
    _carry(state)


def _put(state: State, square: Square) -> None:
    name, state.holding = state.holding, ""
    state.where[name] = square
    if name == "bowl":
        for inside in state.bowl:
            state.where[inside] = square


def _fill(state: State, food: str) -> None:
    """Puts a food into the bowl."""
    if state.holding == food:
        state.holding = ""
    state.bowl.append(food)
    state.where[food] = state.where["bowl"]


def _use_counter(state: State, square: Square) -> None:
    there = lies(state, square)
    if not state.holding:
        if there:
            _take(state, there)
    elif not there:
        _put(state, square)
    elif there == "bowl" and chopped(state, state.holding):
        _fill(state, state.holding)
    elif state.holding == "bowl" and chopped(state, there):
        _fill(state, there)


def _use_board(state: State, square: Square, task: str, rewards: Rewards) -> float:
    there = lies(state, square)
    if not state.holding:
        if there == "bowl" or chopped(state, there):
            _take(state, there)
        elif there:
            state.chops[there] += 1
            return rewards.of_chop(there, task, state.paid) if chopped(state, there) else 0.0
    elif not there:
        _put(state, square)
    elif state.holding == "bowl" and chopped(state, there):
        _fill(state, there)
    elif there == "bowl" and chopped(state, state.holding):
        _fill(state, state.holding)
        _take(state, "bowl")
    return 0.0


def _deliver(layout: Layout, state: State, task: str, rewards: Rewards) -> float:
    if not state.holding:
        return 0.0
    dish = "-".join(name for name in ORDER if name in state.bowl) + " salad"
    if state.holding == "bowl" and dish == task:
        state.served = True
        _put(state, layout.delivery)
        return rewards.served
    returned = [state.holding, *(state.bowl if state.holding == "bowl" else ())]
    for name in returned:
        state.where[name] = layout.homes[name]
        if name in state.chops:
            state.chops[name] = 0
    if state.holding == "bowl":
        state.bowl.clear()
    state.holding = ""
    return rewards.wrong


@lru_cache(maxsize=1 << 14)
def way(floor: frozenset[Square], start: Square, target: Square) -> int:
    """Returns the first move of a shortest path into a square, or STAY if there is none.

    A* with the Manhattan distance. Ties are expanded in last-in, first-out order.
    """
    if start == target:
        return STAY

    def guess(square: Square) -> int:
        return abs(square[0] - target[0]) + abs(square[1] - target[1])

    count = 0
    queue: list[tuple[int, int, Square, int]] = [(guess(start), 0, start, STAY)]
    cost, first = {start: 0}, {start: STAY}
    while queue:
        _, _, square, _ = heapq.heappop(queue)
        if square == target:
            return first[square]
        for move in SEARCH:
            step = STEPS[move]
            to = square[0] + step[0], square[1] + step[1]
            if to != target and to not in floor:
                continue
            new = cost[square] + 1
            if new < cost.get(to, 1 << 30):
                count += 1
                cost[to] = new
                first[to] = first[square] if square != start else move
                heapq.heappush(queue, (new + guess(to), -count, to, move))
    return STAY
