"""Sokoban: push every box onto a target."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, lru_cache

from agentgym.core import TextEnv
from agentgym.envs.grid.moves import DIRECTIONS, Square, read_moves, shortest_path
from agentgym.rendering import Cell, Scene, from_map
from agentgym.rendering.scene import BLUE, BROWN, DARK, GOLD, GREEN, RED
from agentgym.tasks import Tasks, draw_level, task_draws
from agentgym.time_step import TimeStep
from agentgym.utils.fast_pcg64 import Draws

WAYS = tuple(DIRECTIONS.values())
STEP, ON, OFF, SOLVED = -0.1, 1.0, -1.0, 10.0
SYMBOLS = {"#": "wall", "_": "floor", "O": "target", "X": "box", "√": "box on a target"}


@dataclass(frozen=True)
class Room:
    """The static part of a room.

    Attributes:
        walls: rows of "#" and "_".
        targets: target squares.
    """

    walls: tuple[str, ...]
    targets: frozenset[Square]

    def wall(self, square: Square) -> bool:
        """Whether a square is a wall."""
        return self.walls[square[0]][square[1]] == "#"


LEGEND = {
    "#": Cell(DARK),
    "_": Cell(),
    "O": Cell(shape="ring", color=RED),
    "X": Cell(shape="box", color=BROWN),
    "√": Cell(shape="box", color=GREEN, label="ok"),
    "P": Cell(shape="disc", color=BLUE),
    "S": Cell(GOLD, "disc", BLUE),
}
"""The cells of the picture."""


@dataclass
class State:
    """The room, the boxes and the player.

    Attributes:
        walls: rows of "#" and "_".
        targets: target squares.
        boxes: squares of the boxes.
        player: square of the player.
    """

    walls: tuple[str, ...]
    targets: frozenset[Square]
    boxes: frozenset[Square]
    player: Square

    def picture(self) -> str:
        """The room as a map."""
        rows = [list(row) for row in self.walls]
        for row, column in self.targets:
            rows[row][column] = "O"
        for row, column in self.boxes:
            rows[row][column] = "√" if (row, column) in self.targets else "X"
        row, column = self.player
        rows[row][column] = "S" if self.player in self.targets else "P"
        return "\n".join("".join(row) for row in rows)

    @classmethod
    def of(cls, picture: str) -> State:
        """Parses a map."""
        squares = {
            (r, c): symbol
            for r, row in enumerate(picture.split("\n"))
            for c, symbol in enumerate(row)
        }

        def where(symbols: str) -> frozenset[Square]:
            return frozenset(square for square, symbol in squares.items() if symbol in symbols)

        walls = tuple("".join("#" if x == "#" else "_" for x in row) for row in picture.split("\n"))
        (player,) = where("PS")
        return cls(walls, where("O√S"), where("X√"), player)


def push(
    room: Room, boxes: frozenset[Square], player: Square, step: Square
) -> tuple[frozenset[Square], Square]:
    """Returns boxes and player after a move. A blocked move has no effect."""
    to = player[0] + step[0], player[1] + step[1]
    if room.wall(to):
        return boxes, player
    if to not in boxes:
        return boxes, to
    beyond = to[0] + step[0], to[1] + step[1]
    if room.wall(beyond) or beyond in boxes:
        return boxes, player
    return boxes - {to} | {beyond}, to


@lru_cache(maxsize=4096)
def solution(room: Room, boxes: frozenset[Square], player: Square) -> tuple[str, ...] | None:
    """Returns a shortest sequence of moves that solves the room, or None if it is unsolvable."""
    if stuck(room, boxes):
        return None

    def around(state: tuple[frozenset[Square], Square]):
        before, at = state
        for name, step in DIRECTIONS.items():
            after, to = push(room, before, at, step)
            if to != at and (after is before or not stuck(room, after)):
                yield name, (after, to)

    found = shortest_path(
        (boxes, player),
        around,  # type: ignore[arg-type]
        lambda state: state[0] == room.targets,  # type: ignore[index]
    )
    return None if found is None else tuple(found)


def stuck(room: Room, boxes: frozenset[Square]) -> bool:
    """Whether a box is in a corner without a target, which makes the room unsolvable."""
    for row, column in boxes - room.targets:
        above, below = room.wall((row - 1, column)), room.wall((row + 1, column))
        left, right = room.wall((row, column - 1)), room.wall((row, column + 1))
        if (above or below) and (left or right):
            return True
    return False


@lru_cache(maxsize=1024)
def make_room(task: str, size: int, boxes: int) -> State:
    """Generates a room: carves it with a random walk, then pulls the boxes off their targets.

    Rooms with a solution of fewer than five moves per box are rejected. All calls for a task share
    the state that is returned.
    """
    draws = task_draws(task, "sokoban", block=1024)

    def room() -> State:
        while True:
            state = _pulled(draws, size, boxes)
            moves = solution(Room(state.walls, state.targets), state.boxes, state.player)
            if moves is not None and len(moves) >= 5 * boxes:
                return state

    return draw_level(task, room)


def _pulled(draws: Draws, size: int, boxes: int) -> State:
    """Returns a room without a box on a target."""
    while True:
        floor = sorted(_carve(draws, size))
        if len(floor) < 2 * boxes + 2:
            continue
        order = [floor[i] for i in draws.permutation(len(floor))]
        targets = order[:boxes]
        placed, player = _pull(draws, size, set(floor), targets, order[boxes])
        if placed.isdisjoint(targets):
            rows = [["#"] * size for _ in range(size)]
            for row, column in floor:
                rows[row][column] = "_"
            walls = tuple(map("".join, rows))
            return State(walls, frozenset(targets), placed, player)


BRUSHES = (((0, 0), (0, 1)), ((0, 0), (1, 0)), ((0, 0), (0, 1), (1, 0), (1, 1)), ((0, 0),))


@cache
def _walks(size: int) -> tuple[dict[Square, list[Square]], dict[Square, list[list[Square]]]]:
    """Returns the square that a walk enters in each of the `WAYS`, and what each brush paints.

    Neither of them leaves the room: a walk stays where it is instead.
    """
    inside = [(row, column) for row in range(1, size - 1) for column in range(1, size - 1)]
    entered = {square: [] for square in inside}
    painted = {square: [] for square in inside}
    for row, column in inside:
        for down, right in WAYS:
            to = row + down, column + right
            entered[row, column].append(to if to in inside else (row, column))
        for brush in BRUSHES:
            squares = [(row + down, column + right) for down, right in brush]
            painted[row, column].append([square for square in squares if square in inside])
    return entered, painted


def _carve(draws: Draws, size: int) -> set[Square]:
    """Returns the squares of a random walk with random turns and a random brush."""
    entered, painted = _walks(size)
    here = 1 + draws.below(size - 2), 1 + draws.below(size - 2)
    floor: set[Square] = set()
    way = WAYS.index(DIRECTIONS["right"])
    for _ in range(int(1.7 * (size + size))):
        if draws.random() < 0.35:
            way = draws.bits(2)
        here = entered[here][way]
        floor.update(painted[here][draws.bits(2)])
    return floor


@cache
def _beside(size: int) -> dict[Square, list[tuple[Square, Square]]]:
    """Returns the squares ahead of each square and behind it, for each of the `WAYS`."""
    return {
        (row, column): [
            ((row + down, column + right), (row - down, column - right)) for down, right in WAYS
        ]
        for row in range(size)
        for column in range(size)
    }


def _pull(
    draws: Draws, size: int, floor: set[Square], targets: list[Square], player: Square
) -> tuple[frozenset[Square], Square]:
    """Plays random moves in reverse and returns the state with the boxes furthest from targets."""
    boxes = list(targets)
    best, best_score = (frozenset(boxes), player), -1
    beside, bits = _beside(size), draws.bits
    for _ in range(12 * len(boxes) * size):
        ahead, behind = beside[player][bits(2)]
        if behind not in floor or behind in boxes:
            continue
        if ahead in boxes and draws.random() < 0.8:
            boxes[boxes.index(ahead)] = player
            away = [abs(a - x) + abs(b - y) for (a, b), (x, y) in zip(boxes, targets, strict=True)]
            score = sum(away) * all(box not in targets for box in boxes)
            if score > best_score:
                best, best_score = (frozenset(boxes), behind), score
        player = behind
    return best


class Sokoban(TextEnv):
    """Push every box in a room onto a target.

    ## Description
    Sokoban in the variant of RAGEN. Boxes can be pushed but not pulled. Rooms are generated by
    playing in reverse from a solved state, so every room is solvable. A wrong push can make a room
    unsolvable, and the observation does not signal this.

    ## Action Space
    Text: `up`, `down`, `left` or `right`. With `moves_per_turn` above 1, up to that many moves can
    be joined by `||`, for example `left || up`.

    ## Observation Space
    Text: a map with one character per square:

    - `#`: wall
    - `_`: floor
    - `O`: target
    - `X`: box
    - `√`: box on a target
    - `P`: player
    - `S`: player on a target

    ## Rewards
    - Term `moves`: -0.1 per move, whether or not it has an effect.
    - Term `boxes`: 1 for a box pushed onto a target, -1 for a box pushed off a target.
    - Term `solved`: 10 when every box is on a target.

    An invalid action costs `invalid_penalty`, by default as much as the moves of a whole turn.

    ## Starting State
    A room generated from the task name, without a box on a target. Training and test tasks share
    no rooms.

    ## Episode End
    Termination: every box is on a target. Truncation: after `max_turns` turns.

    ## Information
    The common keys. `progress` is the fraction of boxes on targets.

    ## Arguments
    - `size` (int, default 6): number of rows and columns including walls, 6 to 12.
    - `boxes` (int, default 1): number of boxes, 1 to 4 and at most `size` - 4.
    - `moves_per_turn` (int, default 1): maximum number of moves per action.
    - `invalid_penalty` (float or None, default None): cost of an invalid action. None: 0.1 times
      `moves_per_turn`.
    - `max_turns` (int or None, default 50): turn limit.

    ## References
    RAGEN (arXiv 2504.20073) and gym-sokoban. Transitions, rewards, episode ends and maps are the
    same. Rooms come from a different generator.

    ## Version History
    v0: first version.
    """

    State = State
    reward_names = ("moves", "boxes", "solved")

    def __init__(
        self,
        *,
        size: int = 6,
        boxes: int = 1,
        moves_per_turn: int = 1,
        max_turns: int | None = 50,
        invalid_penalty: float | None = None,
        **kwargs,
    ):
        if not 6 <= size <= 12:
            raise ValueError(f"size must be in [6, 12], got {size}.")
        most = min(4, size - 4)
        if not 1 <= boxes <= most:
            raise ValueError(f"boxes must be in [1, {most}] for size {size}, got {boxes}.")
        if moves_per_turn < 1:
            raise ValueError(f"moves_per_turn must be at least 1, got {moves_per_turn}.")
        penalty = -STEP * moves_per_turn if invalid_penalty is None else invalid_penalty
        super().__init__(max_turns=max_turns, invalid_penalty=penalty, **kwargs)
        self.size, self.boxes, self.moves_per_turn = size, boxes, moves_per_turn
        self.tasks = Tasks.generated()
        several = ""
        if moves_per_turn > 1:
            several = f"- You can join up to {moves_per_turn} moves with ||, such as left || up.\n"
        self.instructions = (
            "Push every box onto a target.\n"
            "- Map: P you, X box, O target, √ box on a target, S you on a target, # wall, "
            "_ floor.\n"
            f"- Each turn, reply with one move: up, down, left or right.\n{several}"
            "- Walk into a box to push it. It moves if the square behind it is free. Boxes "
            "cannot be pulled.\n"
            f"- Rewards: -0.1 per move, {-self.invalid_penalty:g} per invalid action, 1 for "
            "pushing a box onto a target, -1 for pushing it off, 10 when every box is on a target, "
            "which ends the episode."
        )

    def _start(self, task: str) -> TimeStep:
        self.state = replace(make_room(task, self.size, self.boxes))
        return self._look({})

    def _advance(self, action: str) -> TimeStep:
        moves = read_moves(action, self.moves_per_turn)
        if isinstance(moves, str):
            return self._invalid(moves)
        state = self.state
        room = Room(state.walls, state.targets)
        rewards = {"moves": 0.0, "boxes": 0.0}
        for name in moves:
            before = len(state.boxes & state.targets)
            state.boxes, state.player = push(room, state.boxes, state.player, DIRECTIONS[name])
            change = len(state.boxes & state.targets) - before
            rewards["moves"] += STEP
            rewards["boxes"] += ON * max(change, 0) - OFF * min(change, 0)
            if state.boxes == state.targets:
                break
        return self._look(rewards)

    def _look(self, rewards: dict[str, float]) -> TimeStep:
        state = self.state
        solved = state.boxes == state.targets
        terms = {"moves": 0.0, "boxes": 0.0} | rewards
        return TimeStep(
            text=state.picture(),
            rewards=terms | {"solved": SOLVED * solved},
            terminated=solved,
            success=solved,
            progress=len(state.boxes & state.targets) / len(state.targets),
            admissible=() if solved else tuple(DIRECTIONS),
        )

    def _frame(self) -> Scene:
        return from_map(self.state.picture().split("\n"), LEGEND)

    def privileged_text(self) -> str:
        """Returns whether a box is stuck in a corner, and the map."""
        state = self.state
        lost = stuck(Room(state.walls, state.targets), state.boxes)
        room = state.picture().replace("\n", " ")
        return f"Stuck: {'yes' if lost else 'no'}. Map: {room}"

    def expert(self) -> str | None:
        """Returns the next move of a shortest solution, or `up` if the room is unsolvable."""
        state = self.state
        moves = solution(Room(state.walls, state.targets), state.boxes, state.player)
        return moves[0] if moves else "up"
