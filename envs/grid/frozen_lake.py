"""FrozenLake: cross the ice without falling into a hole."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from agentgym.core import TextEnv, TurnLimit
from agentgym.envs.grid.moves import DIRECTIONS, Square, read_moves
from agentgym.rendering import Cell, Scene, from_map
from agentgym.rendering.scene import GOLD, ICE, RED, WATER
from agentgym.tasks import Tasks, draw_level, task_rng
from agentgym.time_step import TimeStep

NAMES = tuple(DIRECTIONS)
STEPS = tuple(DIRECTIONS.values())
LEGEND = {
    "_": Cell(ICE),
    "O": Cell(WATER),
    "G": Cell(ICE, "star", GOLD),
    "P": Cell(ICE, "disc", RED),
    "X": Cell(WATER, "cross", RED),
    "√": Cell(GOLD, "disc", RED),
}
"""The cells of the picture."""


@dataclass
class State:
    """The lake and the position of the agent.

    Attributes:
        lake: rows of "F" (ice), "H" (hole) and one "G" (goal).
        position: (row, column).
        start: initial position of the agent.
    """

    lake: tuple[str, ...]
    position: Square
    start: Square

    @property
    def ground(self) -> str:
        """The type of the agent's square: "F", "H" or "G"."""
        return self.lake[self.position[0]][self.position[1]]

    def picture(self) -> str:
        """The lake as text. `X` marks the agent in a hole, `√` the agent at the goal."""
        lake = "\n".join(self.lake).replace("F", "_").replace("H", "O")
        here = self.position[0] * (len(self.lake) + 1) + self.position[1]
        return lake[:here] + {"F": "P", "H": "X", "G": "√"}[self.ground] + lake[here + 1 :]


def moved(lake: tuple[str, ...], position: Square, step: Square) -> Square:
    """Returns the square that a step leads to. Steps off the grid have no effect."""
    size = len(lake)
    row, column = position[0] + step[0], position[1] + step[1]
    return min(max(row, 0), size - 1), min(max(column, 0), size - 1)


def make_lake(rng: np.random.Generator, size: int, frozen: float) -> State:
    """Samples lakes until the goal is reachable."""
    while True:
        ice = rng.random((size, size)) < frozen
        start, goal = (divmod(int(n), size) for n in rng.choice(size * size, 2, replace=False))
        ice[start] = True
        rows = [["F" if cell else "H" for cell in row] for row in ice.tolist()]
        rows[goal[0]][goal[1]] = "G"
        lake = tuple("".join(row) for row in rows)
        if start in distances(lake):
            return State(lake, start, start)


@lru_cache(maxsize=1 << 14)
def distances(lake: tuple[str, ...]) -> dict[Square, int]:
    """Returns the number of moves to the goal, without slips, of all squares that can reach it."""
    cells = "".join(lake)
    goal = divmod(cells.index("G"), len(lake))
    found, queue = {goal: 0}, deque([goal])
    while queue:
        square = queue.popleft()
        for step in STEPS:  # steps are reversible
            before = moved(lake, square, step)
            if before not in found and lake[before[0]][before[1]] == "F":
                found[before] = found[square] + 1
                queue.append(before)
    return found


@lru_cache(maxsize=1024)
def best_moves(lake: tuple[str, ...], slippery: bool) -> dict[Square, str]:
    """Returns the move per square that maximises the probability of reaching the goal.

    Uses value iteration with a discount of 0.999, which breaks ties towards shorter paths.
    """
    size = len(lake)
    kind = np.array([list(row) for row in lake])
    squares = [(r, c) for r in range(size) for c in range(size)]
    to = np.array([[[*moved(lake, s, step)] for step in STEPS] for s in squares])
    index = to[..., 0] * size + to[..., 1]  # [squares, moves]
    goal, over = (kind == "G").ravel(), (kind != "F").ravel()
    value = goal.astype(float)
    for _ in range(20 * size * size):
        reached = value[index]
        if slippery:  # the intended move or one of the two at right angles to it
            reached = (reached + np.roll(reached, 1, 1) + np.roll(reached, -1, 1)) / 3
        updated = np.where(over, goal, 0.999 * reached.max(1))
        if np.abs(updated - value).max() < 1e-12:
            break
        value = updated
    reached = value[index]
    if slippery:
        reached = (reached + np.roll(reached, 1, 1) + np.roll(reached, -1, 1)) / 3
    return {square: NAMES[int(m)] for square, m in zip(squares, reached.argmax(1), strict=True)}


class FrozenLake(TextEnv):
    """Cross a frozen lake to the goal without falling into a hole.

    ## Description
    Gymnasium's FrozenLake in the variant of RAGEN: a lake of `size` x `size` squares, each frozen
    with probability `frozen`, with random start and goal squares that are connected by ice. On
    slippery ice a move goes in the intended direction with probability 1/3 and in each of the two
    perpendicular directions with probability 1/3. A move off the lake has no effect.

    ## Action Space
    Text: `left`, `down`, `right` or `up`. With `moves_per_turn` above 1, up to that many moves can
    be joined by `||`, for example `left || up`.

    ## Observation Space
    Text: a map with one character per square:

    - `_`: ice
    - `O`: hole
    - `G`: goal
    - `P`: agent
    - `X`: agent in a hole
    - `√`: agent at the goal

    ## Rewards
    1 (term `task`) for reaching the goal, else 0. An invalid action costs `invalid_penalty`.

    ## Starting State
    A lake generated from the task name. Training and test tasks share no lakes. Slips are sampled
    with the episode's seed.

    ## Episode End
    Termination: the agent is at the goal or in a hole. Truncation: after `max_turns` turns.

    ## Information
    The common keys. `progress` is the fraction of the initial shortest-path distance covered.

    ## Arguments
    - `size` (int, default 4): number of rows and columns, 2 to 16.
    - `slippery` (bool, default True): whether moves slip.
    - `frozen` (float, default 0.8): probability that a square is ice, 0.3 to 1.
    - `moves_per_turn` (int, default 1): maximum number of moves per action.
    - `max_turns` (int, None or "auto", default "auto"): turn limit. "auto" is 50, plus 25 for every
      row above 6.

    ## References
    RAGEN (arXiv 2504.20073). Gymnasium's FrozenLake-v1. Transitions, rewards, episode ends and maps
    are the same. Lakes come from a different generator.

    ## Version History
    v0: first version.
    """

    State = State

    def __init__(
        self,
        *,
        size: int = 4,
        slippery: bool = True,
        frozen: float = 0.8,
        moves_per_turn: int = 1,
        max_turns: TurnLimit = "auto",
        **kwargs,
    ):
        if not 2 <= size <= 16:
            raise ValueError(f"size must be in [2, 16], got {size}.")
        if not 0.3 <= frozen <= 1:
            raise ValueError(f"frozen must be in [0.3, 1], got {frozen}.")
        if moves_per_turn < 1:
            raise ValueError(f"moves_per_turn must be at least 1, got {moves_per_turn}.")
        turns = 50 + 25 * max(0, size - 6) if max_turns == "auto" else max_turns
        super().__init__(max_turns=turns, **kwargs)
        self.size, self.slippery, self.frozen = size, slippery, frozen
        self.moves_per_turn = moves_per_turn
        self.tasks = Tasks.generated()
        self.instructions = self._rules()

    def _rules(self) -> str:
        slips = (
            "- The ice is slippery: a move goes in your direction or in one of the two "
            "perpendicular directions, each with probability 1/3.\n"
        )
        several = (
            f"- You can join up to {self.moves_per_turn} moves with ||, for example: left || up\n"
        )
        return (
            "Cross the frozen lake to the goal without falling into a hole.\n"
            "- Map: P you, G goal, O hole, _ ice.\n"
            "- Each turn, reply with one move: left, down, right or up.\n"
            + several * (self.moves_per_turn > 1)
            + slips * self.slippery
            + "- A move off the map has no effect.\n"
            "- The episode ends at the goal (reward 1) or in a hole (reward 0)."
        )

    def _start(self, task: str) -> TimeStep:
        rng = task_rng(task, "frozen_lake")
        self.state = draw_level(task, lambda: make_lake(rng, self.size, self.frozen))
        return self._look()

    def _advance(self, action: str) -> TimeStep:
        moves = read_moves(action, self.moves_per_turn)
        if isinstance(moves, str):
            return self._invalid(moves)
        state = self.state
        for name in moves:
            if state.ground != "F":
                break
            direction = NAMES.index(name)
            if self.slippery:
                direction = (direction + int(self.np_random.integers(-1, 2))) % 4
            state.position = moved(state.lake, state.position, STEPS[direction])
        return self._look()

    def _look(self) -> TimeStep:
        state = self.state
        there = state.ground == "G"
        over = state.ground != "F"
        ways = distances(state.lake)
        whole, left = ways.get(state.start) or 1, ways.get(state.position)
        return TimeStep(
            text=state.picture(),
            rewards={"task": float(there)},
            terminated=over,
            success=there,
            progress=0.0 if left is None else max(0.0, 1 - left / whole),
            admissible=() if over else NAMES,
        )

    def _frame(self) -> Scene:
        return from_map(self.state.picture().split("\n"), LEGEND)

    def achieved(self) -> Square | None:
        """Returns the current square if it is ice and not the initial one, else None.

        Always None on slippery ice: relabelled goals would attribute random slips to the moves.
        """
        state = self.state
        stands = state.ground == "F" and state.position != state.start
        return state.position if stands and not self.slippery else None

    def pursue(self, goal: Square) -> tuple[str, dict[str, Any]]:
        """Replaces the goal of an episode that has just begun. The old goal becomes ice."""
        rows = [list(row.replace("G", "F")) for row in self.state.lake]
        rows[goal[0]][goal[1]] = "G"
        self.state.lake = tuple("".join(row) for row in rows)
        self._last = self._look()
        return self._last.observation, self._info(self._last)

    def privileged_text(self) -> str:
        """Returns the map, the number of moves to the goal without slips, and whether ice slips."""
        lake = self.state.picture().replace("\n", " ")
        left = distances(self.state.lake).get(self.state.position, "none")
        return f"Map: {lake}. Moves to the goal: {left}. Slips: {'yes' if self.slippery else 'no'}."

    def expert(self) -> str | None:
        """Returns a move that maximises the probability of reaching the goal."""
        return best_moves(self.state.lake, self.slippery)[self.state.position]
