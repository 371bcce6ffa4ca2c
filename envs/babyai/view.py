"""The agent's view of a grid world, and paths within the view.

A map is a bytearray with one code per cell, row by row. A margin of walls keeps every view inside
it. A position is an index into the map. A place combines a position and a direction (0 right,
1 down, 2 left, 3 up) as `4 * position + direction`. The rules of sight are minigrid's. The path
search follows the BabyAI environment of the AgentGym framework (Xi et al., arXiv 2406.04151) and
breaks ties between paths in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache

SIZE = 7
"""Side of the square view in cells. The agent stands in the middle of the last row."""
MARGIN = SIZE + 1
KINDS = ("unseen", "empty", "wall", "floor", "door", "key", "ball", "box", "goal", "lava", "agent")
COLOURS = ("red", "green", "blue", "purple", "yellow", "grey")
DOORS = ("open", "closed", "locked")
LEFT, RIGHT, FORWARD, PICKUP, DROP, TOGGLE = range(6)
OWN = SIZE * SIZE - SIZE // 2 - 1
"""Index of the agent's own cell in its view."""


def code(kind: int, colour: int, state: int) -> int:
    """Returns the code of a cell from minigrid's three numbers. Code 0 is an unseen cell."""
    return 18 * kind + 3 * colour + state


EMPTY = code(1, 0, 0)
WALL = code(2, 5, 0)
NAMES = tuple(f"{COLOURS[number // 3 % 6]} {KINDS[number // 18]}" for number in range(198))
OPAQUE = {*range(36, 54), *(code(4, c, s) for c in range(6) for s in (1, 2))}
CLEAR = bytes(ord("0") if number in OPAQUE else ord("1") for number in range(256))
SOLID = {number for number in range(198) if number // 18 in (2, 5, 6, 7, 9)}
SEEN = tuple(
    bytes(255 * int(bit) for bit in f"{mask:0{SIZE}b}") for mask in range(2**SIZE)
)  # by the mask of a row: 255 for each visible cell
NEAREST = tuple(
    sorted(range(SIZE * SIZE), key=lambda n: SIZE - 1 - n // SIZE + abs(n % SIZE - SIZE // 2))
)
"""Cells of a view, nearest first, and among equals from the far left to the near right."""


@cache
def spread(mask: int, clear: int) -> tuple[int, int]:
    """Returns the visible cells of a row, and of the row behind it, as bit masks.

    Sight spreads from a visible, clear cell to its neighbours in the row, and in the next row to
    the cells behind it and diagonally behind it: once from left to right, then back.

    Args:
        mask: cells of the row that are visible from the row before. The left cell is the highest
            bit.
        clear: cells of the row that do not block sight.
    """
    seen = [bool(mask >> (SIZE - 1 - i) & 1) for i in range(SIZE)]
    behind = [False] * SIZE
    for start, end, step in ((0, SIZE - 1, 1), (SIZE - 1, 0, -1)):
        for i in range(start, end, step):
            if seen[i] and clear >> (SIZE - 1 - i) & 1:
                seen[i + step] = behind[i + step] = behind[i] = True
    first, second = (int("".join("01"[x] for x in row), 2) for row in (seen, behind))
    return first, second


@dataclass
class Map:
    """The cells of a level and its agent.

    Attributes:
        width: the width of the map with its margins.
        cells: the code of each cell.
        position: the agent's position.
        direction: the agent's direction.
        carrying: the code of the thing carried, EMPTY if there is none.
    """

    width: int
    cells: bytearray
    position: int = 0
    direction: int = 0
    carrying: int = EMPTY

    def index(self, x: int, y: int) -> int:
        """Returns the position of a cell of the grid."""
        return (y + MARGIN) * self.width + x + MARGIN

    @property
    def ahead(self) -> int:
        """The position in front of the agent."""
        return self.position + _steps(self.width)[self.direction]

    def view(self) -> bytes:
        """Returns the codes of the cells in view, 0 if unseen: far to near, left to right."""
        forward = _steps(self.width)[self.direction]
        right = _steps(self.width)[(self.direction + 1) % 4]
        corner = self.position + (SIZE - 1) * forward - SIZE // 2 * right
        rows, masks = [], []
        mask = 1 << SIZE // 2
        for near in reversed(range(SIZE)):
            start = corner - near * forward
            row = self.cells[start : start + SIZE * right : right]
            seen, mask = spread(mask, int(row.translate(CLEAR), 2))
            rows.append(row)
            masks.append(SEEN[seen])
        rows.reverse()
        masks.reverse()
        rows[-1][SIZE // 2] = self.carrying
        both = int.from_bytes(b"".join(rows)) & int.from_bytes(b"".join(masks))
        return both.to_bytes(SIZE * SIZE)


@cache
def _steps(width: int) -> tuple[int, int, int, int]:
    return 1, width, -1, -width


@dataclass(frozen=True)
class Thing:
    """A thing in view: its name, its number among things of that name, and its position."""

    name: str
    number: int
    ahead: int
    right: int
    position: int
    code: int


@dataclass
class Scene:
    """The things in view and the admissible actions.

    Attributes:
        things: all things in view except walls, nearest first.
        barrier: kind and distance of the nearest wall or box straight ahead, if any.
        actions: the primitive steps of each macro action, by its name.
    """

    things: list[Thing] = field(default_factory=list)
    barrier: tuple[str, int] | None = None
    actions: dict[str, list[int]] = field(default_factory=dict)


def things_in(view: bytes, grid: Map) -> tuple[list[Thing], tuple[str, int] | None, set[int]]:
    """Returns the things in view, the nearest barrier straight ahead, and solid positions."""
    forward = _steps(grid.width)[grid.direction]
    right = _steps(grid.width)[(grid.direction + 1) % 4]
    things, solid, counts = [], set(), {}
    barrier = None
    for n in NEAREST:
        number = view[n]
        if number <= EMPTY or n == OWN:
            continue
        kind = number // 18
        ahead, aside = SIZE - 1 - n // SIZE, n % SIZE - SIZE // 2
        position = grid.position + ahead * forward + aside * right
        if number in SOLID:
            solid.add(position)
        if kind in (2, 7) and aside == 0 and barrier is None:
            barrier = KINDS[kind], ahead
        if kind == 2:
            continue
        name = f"{NAMES[number]}"
        if kind == 4:
            colour, _, door = name.partition(" ")
            name = f"{colour} {DOORS[number % 3]} {door}"
        counts[name] = counts.get(name, 0) + 1
        things.append(Thing(name, counts[name], ahead, aside, position, number))
    return things, barrier, solid


class Ways:
    """Paths from the agent's place to other places within its view, all found in one search.

    Args:
        grid: the map.
        solid: positions in view that cannot be entered.
        goals: the places that reach each goal. The search ends when every goal is reached.
    """

    def __init__(self, grid: Map, solid: set[int], goals: dict[int, list[int]]):
        self._parent: dict[int, tuple[int, int]] = {}
        self._start = 4 * grid.position + grid.direction
        self._reached: dict[int, int] = {}
        self._search(_window(grid) - solid, _steps(grid.width), goals)

    def _search(self, free: set[int], steps: tuple[int, ...], goals: dict[int, list[int]]) -> None:
        parent, reached = self._parent, self._reached
        wanted: dict[int, list[int]] = {}
        for goal, places in goals.items():
            for place in places:
                wanted.setdefault(place, []).append(goal)
        done: set[int] = set()
        queue = [self._start]
        # A place enters the queue once per path to it, and the last path found before it is
        # first expanded counts. The reference therefore sometimes takes a detour of one turn.
        for place in queue:
            if place not in done:
                done.add(place)
                for goal in wanted.get(place, ()):
                    reached.setdefault(goal, place)
                if len(reached) == len(goals):
                    return
            position, direction = divmod(place, 4)
            ahead = position + steps[direction]
            if ahead in free:
                after = 4 * ahead + direction
                if after not in done:
                    queue.append(after)
                    parent[after] = place, FORWARD
            for turn in (LEFT, RIGHT):
                after = 4 * position + (direction + (1 if turn else 3)) % 4
                if after not in done:
                    queue.append(after)
                    parent[after] = place, turn

    def to(self, goal: int) -> list[int] | None:
        """Returns the turns and steps to a goal, or None if there is no path."""
        place = self._reached.get(goal)
        if place is None:
            return None
        way = []
        while place != self._start:
            place, action = self._parent[place]
            way.append(action)
        return way[::-1]


def _window(grid: Map) -> set[int]:
    """Returns the positions of the search: the view, and one more row if it lies towards 0."""
    position, direction = grid.position, grid.direction
    return {position + offset for offset in _offsets(grid.width, direction)}


@cache
def _offsets(width: int, direction: int) -> tuple[int, ...]:
    vectors = ((1, 0), (0, 1), (-1, 0), (0, -1))
    forward, right = vectors[direction], vectors[(direction + 1) % 4]
    ranges = []
    for axis in range(2):
        near = (SIZE - 1) * forward[axis] - SIZE // 2 * right[axis]
        end = near + SIZE * (right[axis] - forward[axis])
        ranges.append(range(end, near + 1) if end < near else range(near, end))
    return tuple(y * width + x for y in ranges[1] for x in ranges[0])


def places_before(position: int, width: int) -> list[int]:
    """Returns the four places that face a position."""
    return [4 * (position - step) + d for d, step in enumerate(_steps(width))]


def places_on(position: int) -> Iterable[int]:
    """Returns the four places at a position."""
    return range(4 * position, 4 * position + 4)


def move(grid: Map, action: int) -> None:
    """Applies a primitive step to the map as minigrid does: turn, move, pick up, drop or toggle.

    Boxes are not opened, because their contents are not on the map.
    """
    cell = grid.cells[grid.ahead]
    kind, lock = cell // 18, cell % 3
    if action in (LEFT, RIGHT):
        grid.direction = (grid.direction + (1 if action == RIGHT else 3)) % 4
    elif action == FORWARD and (cell == EMPTY or (kind == 4 and lock == 0)):
        grid.position = grid.ahead
    elif action == PICKUP and kind in (5, 6, 7) and grid.carrying == EMPTY:
        grid.carrying, grid.cells[grid.ahead] = cell, EMPTY
    elif action == DROP and cell == EMPTY:
        grid.cells[grid.ahead], grid.carrying = grid.carrying, EMPTY
    elif action == TOGGLE and kind == 4:
        key = code(5, cell // 3 % 6, 0)
        if lock < 2 or grid.carrying == key:
            grid.cells[grid.ahead] = cell - lock + (1 if lock == 0 else 0)
