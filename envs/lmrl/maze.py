"""Maze: find the goal of a maze described one cell at a time."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import lru_cache

from agentgym.core import TextEnv, TimeStep, TurnLimit
from agentgym.errors import did_you_mean
from agentgym.tasks import Tasks, task_rng

Cell = tuple[int, int]
Grid = tuple[str, ...]

MOVES: dict[str, Cell] = {
    "move left": (0, -1),
    "move right": (0, 1),
    "move up": (-1, 0),
    "move down": (1, 0),
}
ADMISSIBLE = tuple(MOVES)
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
"""Reward at the goal, reward of any other move, penalty of what is no move."""
LATE = -1.0


@dataclass
class State:
    """The maze ("#" wall, "." free), where the agent stands and must go, the way at the start."""

    grid: Grid
    goal: Cell
    position: Cell
    distance: int


def cells(grid: Grid) -> list[Cell]:
    """Returns the free cells as (row, column), row by row."""
    return [(r, c) for r, row in enumerate(grid) for c, mark in enumerate(row) if mark == "."]


def moved(grid: Grid, position: Cell, move: str) -> Cell:
    """Returns where a move leads; into a wall, nowhere."""
    row, column = position[0] + MOVES[move][0], position[1] + MOVES[move][1]
    return (row, column) if grid[row][column] == "." else position


@lru_cache(maxsize=1024)
def distances(grid: Grid, goal: Cell) -> dict[Cell, int]:
    """Returns the number of moves to the goal from every cell."""
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
def describe(grid: Grid, goal: Cell, position: Cell, what: str) -> str:
    """Returns what the agent reads at a cell: goal and position if told, then the walls."""
    told = "" if what == "walls" else f"The goal is at row {goal[0]}, column {goal[1]}. "
    if what == "position":
        told += f"You are at row {position[0]}, column {position[1]}. "
    walls = [name for name, (dr, dc) in SIDES if grid[position[0] + dr][position[1] + dc] == "#"]
    return f"{told}Walls: {', '.join(walls) or 'none'}."


def random_maze(task: str, size: int) -> State:
    """Returns a maze of size x size rooms in which one way leads from anywhere to anywhere."""
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
    """Returns the start cells of a fixed maze: one in four is a test task, as is the published."""
    grid, goal, published = FIXED[maze]
    starts = [cell for cell in cells(grid) if cell != goal]
    test = [cell for i, cell in enumerate(starts) if i % 4 == 0 or cell == published]
    names = {cell: f"{maze}/{cell[0]},{cell[1]}" for cell in starts}
    return Tasks(
        train=[name for cell, name in names.items() if cell not in test],
        test=[names[cell] for cell in test],
    )


class Maze(TextEnv):
    """Find the goal of a maze that is described in words, one cell at a time.

    ## Description
    The maze of LMRL-Gym. The agent stands in a cell of a maze with walls and reads which sides of
    it are closed and, depending on the description, where it is and where the goal is. With
    `describe="position"` the observation is the whole state; with the other two cells look alike
    and the way must be remembered.

    ## Action Space
    Text: `move left`, `move right`, `move up`, `move down` (case, surrounding space and a full
    stop do not matter). Moving into a wall is a valid move that leads nowhere.

    ## Observation Space
    Text: "The goal is at row 8, column 6. You are at row 1, column 1. Walls: left, above, below."
    Rows are counted downwards, columns to the right, both from 0. `describe="goal"` leaves the
    position out, `describe="walls"` the goal as well.

    ## Rewards
    Term `task`, for the goal / any other turn / what is no move (the last as `invalid`, unless
    `invalid_penalty` is given): `standard` 0 / -1 / -4, `illegal_penalty` 1 / 0 / -1,
    `scaled` 1 / -1 / -100. The last turn of `max_turns` is not played and gives -1.

    ## Starting State
    The task names the maze and the start cell; of random mazes it makes everything.

    ## Episode End
    Termination: the goal is reached. Truncation: the turn `max_turns`, which is not played any
    more: after 100 moves, as in the original.

    ## Information
    The common keys; `progress` is the share of the shortest way from the start that is covered.
    `state_key` names the cell, whatever is described.

    ## Arguments
    `maze`: "double_t" (10 x 13, 25 start cells), "u" (5 x 5, 6 start cells) or "random" (a new
    maze each task). `size`: rooms along a side of a random maze (2 to 50). `describe`:
    "position", "goal" or "walls". `reward`: "standard", "illegal_penalty" or "scaled".
    `max_turns`: default 101, in a random maze at least twice its rooms.

    ## Example Transcript
    ```
    The goal is at row 8, column 6. You are at row 7, column 6. Walls: right, left.
    > move down
    Success.
    ```

    ## Baselines
    Mean return and success on the test split, n = 200 episodes each. `Maze-v0` and
    `Maze-Partial-v0`: random -82.1, 28 %; expert (shortest way, sees the maze) -6.7, 100 %.
    `Maze-Random-v0`: random -92.0, 13 %; expert -19.0, 100 %.
    Speed: 140,000 steps/s on one core, 3.5 times the original's 41,900: what remains is the
    common bookkeeping of a turn.

    ## Registered Configurations
    `Maze-v0`: the double T, fully described. `Maze-Partial-v0`: the double T, only walls.
    `Maze-Random-v0`: random mazes of 6 x 6 rooms, fully described.

    ## References
    LMRL-Gym (arXiv 2311.18232), section on the maze; mazes, rewards and endings are the same. The
    original demands a line break after each move, here it does not matter.

    ## Version History
    v0: first version.
    """

    instructions = (
        "You are in a maze of square cells, described row by row (rows are counted downwards, "
        "columns to the right, from 0). Each turn you read which sides of your cell are walls "
        "(above, below, left, right) and perhaps where you and the goal are. Answer with exactly "
        "one move: move left, move right, move up or move down. Moving into a wall does nothing. "
        "Reach the goal in as few moves as possible."
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
        if max_turns == "auto":  # no way is longer than all cells of a maze
            max_turns = max(101, 2 * size * size) if maze == "random" else 101
        super().__init__(max_turns=max_turns, invalid_penalty=penalty, **kwargs)
        self.maze = maze
        self.size = size
        self.describe = describe
        self.tasks = Tasks.generated() if maze == "random" else start_tasks(maze)

    def _start(self, task: str) -> TimeStep:
        if self.maze == "random":
            self.state = random_maze(task, self.size)
        else:
            grid, goal, _ = FIXED[self.maze]
            row, column = task.rpartition("/")[2].split(",")
            start = (int(row), int(column))
            self.state = State(grid, goal, start, distances(grid, goal)[start])
        return self._look(0.0)

    def _advance(self, action: str) -> TimeStep:
        if self._turn + 1 == self.max_turns:
            return self._look(LATE, "Failure: too many moves.")
        state = self.state
        if action not in MOVES:
            return self._invalid(f"Say one of: {', '.join(MOVES)}. Not {action[:40]!r}.")
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
            state_key=f"{self._name()}/{position[0]},{position[1]}",
            feedback=feedback,
        )

    def _name(self) -> str:
        """Returns what tells this maze from the others of the environment."""
        return self.task if self.maze == "random" else self.maze

    def _picture(self) -> str:
        """Returns the map: "A" the agent, "G" the goal."""
        state = self.state
        rows = [list(row) for row in state.grid]
        rows[state.goal[0]][state.goal[1]] = "G"
        rows[state.position[0]][state.position[1]] = "A"
        return "\n".join("".join(row) for row in rows)

    def expert(self) -> str | None:
        """Returns the first move of a shortest way."""
        state = self.state
        left = distances(state.grid, state.goal)
        return min(MOVES, key=lambda move: left[moved(state.grid, state.position, move)])
