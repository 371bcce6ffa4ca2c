"""Maze: find the goal of a maze described one cell at a time."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from agentgym.core import TextEnv, TurnLimit
from agentgym.errors import did_you_mean
from agentgym.rendering import Cell as Tile
from agentgym.rendering import Scene, from_map
from agentgym.rendering.scene import BLUE, DARK, GOLD
from agentgym.tasks import Tasks, task_rng
from agentgym.time_step import TimeStep

Cell = tuple[int, int]
Grid = tuple[str, ...]

MOVES: dict[str, Cell] = {
    "move left": (0, -1),
    "move right": (0, 1),
    "move up": (-1, 0),
    "move down": (1, 0),
}
ADMISSIBLE = tuple(MOVES)
SHOWN = {
    "position": (
        "Each turn you see the row and column of the goal and of your cell, and the sides of your "
        "cell that are walls. Rows are counted downwards and columns to the right, from 0."
    ),
    "goal": (
        "Each turn you see the row and column of the goal and the sides of your cell that are "
        "walls, but not your position. Rows are counted downwards and columns to the right, from 0."
    ),
    "walls": "Each turn you see only the sides of your cell that are walls.",
}
"""The instructions' sentences on the observation, by `describe`."""
SIDES = (("right", (0, 1)), ("left", (0, -1)), ("above", (-1, 0)), ("below", (1, 0)))

DOUBLE_T: Grid = (
    "#############",
    "#.....#.....#",
    "###.#####.###",
    "###.#####.###",
    "###.#####.###",
    "###.......###",
    "######.######",
    "######.######",
    "######.######",
    "#############",
)
U_SHAPE: Grid = ("#####", "#...#", "#.#.#", "#.#.#", "#####")
FIXED: dict[str, tuple[Grid, Cell, Cell]] = {
    "double_t": (DOUBLE_T, (8, 6), (1, 1)),
    "u": (U_SHAPE, (3, 3), (3, 1)),
}
"""Grid, goal and the start of the published evaluations, by the maze's name."""

REWARDS: dict[str, tuple[float, float, float]] = {
    "standard": (0.0, -1.0, 4.0),
    "illegal_penalty": (1.0, 0.0, 1.0),
    "scaled": (1.0, -1.0, 100.0),
}
"""Reward at the goal, reward of any other move, cost of an action that is not a move."""
LATE = -1.0


@dataclass
class State:
    """The maze ("#" wall, "." free), the goal, the agent's cell, the distance at the start."""

    grid: Grid
    goal: Cell
    position: Cell
    distance: int


def cells(grid: Grid) -> list[Cell]:
    """Returns the free cells as (row, column), row by row."""
    return [(r, c) for r, row in enumerate(grid) for c, mark in enumerate(row) if mark == "."]


def moved(grid: Grid, position: Cell, move: str) -> Cell:
    """Returns the cell that a move leads to. A move into a wall leads nowhere."""
    row, column = position[0] + MOVES[move][0], position[1] + MOVES[move][1]
    return (row, column) if grid[row][column] == "." else position


@lru_cache(maxsize=1024)
def distances(grid: Grid, goal: Cell) -> dict[Cell, int]:
    """Returns the number of moves from each cell to the goal."""
    found, queue = {goal: 0}, deque([goal])
    while queue:
        here = queue.popleft()
        for move in MOVES:
            there = moved(grid, here, move)
            if there not in found:
                found[there] = found[here] + 1
                queue.append(there)
    return found


@lru_cache(maxsize=4096)
def describe(grid: Grid, goal: Cell, position: Cell, kind: str) -> str:
    """Returns the observation at a cell: goal and position if `kind` shows them, then the walls."""
    shown = "" if kind == "walls" else f"The goal is at row {goal[0]}, column {goal[1]}. "
    if kind == "position":
        shown += f"You are at row {position[0]}, column {position[1]}. "
    walls = [name for name, (dr, dc) in SIDES if grid[position[0] + dr][position[1] + dc] == "#"]
    return f"{shown}Walls: {', '.join(walls) or 'none'}."


def random_maze(task: str, size: int) -> State:
    """Returns a maze of size x size rooms with exactly one path between any two cells."""
    rng = task_rng(task, f"maze/{size}")
    rows = [["#"] * (2 * size + 1) for _ in range(2 * size + 1)]
    stack: list[Cell] = [(1, 1)]
    rows[1][1] = "."
    while stack:
        r, c = stack[-1]
        ways = [
            (dr, dc)
            for dr, dc in MOVES.values()
            if 0 < r + 2 * dr < 2 * size and 0 < c + 2 * dc < 2 * size
            if rows[r + 2 * dr][c + 2 * dc] == "#"
        ]
        if not ways:
            stack.pop()
            continue
        dr, dc = ways[int(rng.integers(len(ways)))]
        rows[r + dr][c + dc] = rows[r + 2 * dr][c + 2 * dc] = "."
        stack.append((r + 2 * dr, c + 2 * dc))
    grid = tuple("".join(row) for row in rows)
    free = cells(grid)
    goal, start = (free[int(i)] for i in rng.choice(len(free), size=2, replace=False))
    return State(grid, goal, start, distances(grid, goal)[start])


def start_tasks(maze: str) -> Tasks:
    """Returns the start cells of a fixed maze. Every fourth and the published one are for tests."""
    grid, goal, published = FIXED[maze]
    starts = [cell for cell in cells(grid) if cell != goal]
    test = [cell for i, cell in enumerate(starts) if i % 4 == 0 or cell == published]
    names = {cell: f"{maze}/{cell[0]},{cell[1]}" for cell in starts}
    return Tasks(
        train=[name for cell, name in names.items() if cell not in test],
        test=[names[cell] for cell in test],
    )


class Maze(TextEnv):
    """Find the goal of a maze that is described one cell at a time.

    ## Description
    The maze task of LMRL-Gym. The agent observes which sides of its cell are walls and, depending
    on `describe`, its position and the goal's. With `describe="position"` the observation is the
    full state. With the other descriptions, different cells look alike and the agent must remember
    its path.

    ## Action Space
    Text: `move left`, `move right`, `move up` or `move down`. Case, surrounding space and a full
    stop are ignored. Moving into a wall is valid and leaves the agent in place.

    ## Observation Space
    Text, for example "The goal is at row 8, column 6. You are at row 1, column 1. Walls: left,
    above, below." Rows are counted downwards and columns to the right, both from 0.
    `describe="goal"` omits the agent's position. `describe="walls"` also omits the goal.

    ## Rewards
    Term `task` at the goal / for any other turn, and the cost of an action that is not a move (term
    `invalid`, unless `invalid_penalty` is given):
    - `standard`: 0 / -1, cost 4
    - `illegal_penalty`: 1 / 0, cost 1
    - `scaled`: 1 / -1, cost 100

    The last turn of `max_turns` is not played and gives -1.

    ## Starting State
    The task determines the maze and the start cell, and in random mazes the goal as well.

    ## Episode End
    - Termination: the agent reaches the goal.
    - Truncation: at turn `max_turns`, which is not played. By default this is after 100 moves, as
      in LMRL-Gym.

    ## Information
    The common keys.
    - `progress`: the share of the shortest path from the start that is covered.
    - `state_key`: a digest of the maze, the goal and the agent's cell, whatever `describe` is.

    ## Arguments
    - `maze` (str, default "double_t"): "double_t" (10 x 13, 25 start cells), "u" (5 x 5, 6 start
      cells) or "random" (a new maze per task).
    - `size` (int, default 6): rooms along a side of a random maze, 2 to 50.
    - `describe` (str, default "position"): "position", "goal" or "walls".
    - `reward` (str, default "standard"): "standard", "illegal_penalty" or "scaled".
    - `max_turns` (int or None, default 101): turns before truncation. In a random maze the default
      is at least twice the number of its rooms.
    - `invalid_penalty` (float or None, default None): cost of an action that is not a move. None
      uses the cost of `reward`.

    ## Notes
    The expert sees the whole maze and takes a shortest path.

    ## References
    LMRL-Gym (arXiv 2311.18232), section on the maze. Mazes, rewards and endings are the same. The
    original requires a line break after each move, which is optional here.

    ## Version History
    v0: first version.
    """

    instructions = (
        "You are in a maze of square cells. Reach the goal cell in as few moves as possible.\n"
        "{shown}\n"
        "Answer with exactly one move:\n"
        "- move up\n"
        "- move down\n"
        "- move left\n"
        "- move right\n"
        "Moving into a wall leaves you in place and counts as a move.\n"
        "Reaching the goal scores {goal}, any other move {move}. An answer that is not a move "
        "costs {penalty}. The episode ends at the goal, or after too many moves."
    )
    State = State

    def __init__(
        self,
        *,
        maze: str = "double_t",
        size: int = 6,
        describe: str = "position",
        reward: str = "standard",
        max_turns: TurnLimit = "auto",
        invalid_penalty: float | None = None,
        **kwargs,
    ):
        choices = {"maze": (*FIXED, "random"), "describe": ("position", "goal", "walls")}
        given = {"maze": maze, "describe": describe, "reward": reward}
        for name, known in {**choices, "reward": tuple(REWARDS)}.items():
            if given[name] not in known:
                hint = did_you_mean(given[name], known)
                raise ValueError(f"{name} must be one of {known}, got {given[name]!r}.{hint}")
        if not 2 <= size <= 50:
            raise ValueError(f"size must be in [2, 50], got {size}.")
        self.at_goal, self.per_move, penalty = REWARDS[reward]
        penalty = penalty if invalid_penalty is None else invalid_penalty
        if max_turns == "auto":  # no path is longer than the number of cells
            max_turns = max(101, 2 * size * size) if maze == "random" else 101
        super().__init__(max_turns=max_turns, invalid_penalty=penalty, **kwargs)
        self.maze = maze
        self.size = size
        self.describe = describe
        self.tasks = Tasks.generated() if maze == "random" else start_tasks(maze)
        scores = {"goal": self.at_goal, "move": self.per_move, "penalty": penalty}
        text = self.instructions.replace("{shown}", SHOWN[describe])
        for name, score in scores.items():
            text = text.replace(f"{{{name}}}", f"{score:g}")
        self.instructions = text

    def _start(self, task: str) -> TimeStep:
        self.state = self._begin(task)
        return self._look(0.0)

    def _begin(self, task: str) -> State:
        if self.maze == "random":
            return random_maze(task, self.size)
        grid, goal, _ = FIXED[self.maze]
        row, column = task.rpartition("/")[2].split(",")
        start = (int(row), int(column))
        return State(grid, goal, start, distances(grid, goal)[start])

    def _advance(self, action: str) -> TimeStep:
        if self._turn + 1 == self.turn_limit:
            return self._look(LATE, "Failure: too many moves.")
        state = self.state
        if action not in MOVES:
            expected = f"Answer with one of: {', '.join(MOVES)}."
            return self._invalid(f"{action[:40]!r} is not a move. {expected}")
        state.position = moved(state.grid, state.position, action)
        return self._look(self.at_goal if state.position == state.goal else self.per_move)

    def _look(self, reward: float, feedback: str = "") -> TimeStep:
        state = self.state
        grid, goal, position = state.grid, state.goal, state.position
        done = position == goal
        covered = 1 - distances(grid, goal)[position] / state.distance
        return TimeStep(
            text="Success." if done else describe(grid, goal, position, self.describe),
            rewards={"task": reward},
            terminated=done,
            success=done,
            progress=max(0.0, covered),
            admissible=() if done else ADMISSIBLE,
            state_key=f"{self._name()}/{goal[0]},{goal[1]}/{position[0]},{position[1]}",
            feedback=feedback,
        )

    def _name(self) -> str:
        """Returns a name of this maze that is unique in the environment."""
        return self.task if self.maze == "random" else self.maze

    def _picture(self) -> str:
        """Returns the map with "A" for the agent and "G" for the goal."""
        state = self.state
        rows = [list(row) for row in state.grid]
        rows[state.goal[0]][state.goal[1]] = "G"
        rows[state.position[0]][state.position[1]] = "A"
        return "\n".join("".join(row) for row in rows)

    def _frame(self) -> Scene:
        legend = {
            "#": Tile(DARK),
            ".": Tile(),
            "A": Tile(shape="disc", color=BLUE),
            "G": Tile(shape="star", color=GOLD),
        }
        return from_map(self._picture().split("\n"), legend)

    def achieved(self) -> Cell | None:
        """Returns the cell reached, or None if it is the start or goals are not observed."""
        position = self.state.position
        if self.describe == "walls" or position == self.state.goal:
            return None
        return None if position == self._begin(self.task).position else position

    def pursue(self, goal: Cell) -> tuple[str, dict[str, Any]]:
        """Makes this cell the goal of the episode that has just started."""
        state = self.state
        state.goal, state.distance = goal, distances(state.grid, goal)[state.position]
        self._last = self._look(0.0)
        return self._last.observation, self._info(self._last)

    def privileged_text(self) -> str:
        """Returns the number of moves to the goal."""
        state = self.state
        return f"Moves to the goal: {distances(state.grid, state.goal)[state.position]}."

    def expert(self) -> str | None:
        """Returns the first move of a shortest path."""
        state = self.state
        left = distances(state.grid, state.goal)
        return min(MOVES, key=lambda move: left[moved(state.grid, state.position, move)])
