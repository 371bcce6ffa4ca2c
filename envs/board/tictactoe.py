"""TicTacToe: three in a row on a board of nine numbered cells."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import permutations

import numpy as np

from agentgym.core import TimeStep
from agentgym.multiagent.game import Rewards, TextGame
from agentgym.multiagent.pettingzoo import make_pettingzoo
from agentgym.tasks import Tasks

CELLS = tuple("123456789")
MARKS = "XO"
LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))
RESIGN = "resign"


def after(cells: tuple[str, ...]) -> str:
    """Returns the board, "." for an empty cell, after X and O took these cells in turn."""
    board = ["."] * 9
    for ply, cell in enumerate(cells):
        board[int(cell) - 1] = MARKS[ply % 2]
    return "".join(board)


def put(board: str, cell: int, mark: str) -> str:
    """Returns the board with a mark put on a cell."""
    return board[:cell] + mark + board[cell + 1 :]


def empty(board: str) -> list[int]:
    """Returns the empty cells."""
    return [cell for cell in range(9) if board[cell] == "."]


def winner(board: str) -> str | None:
    """Returns the mark that has three in a row, if any."""
    for a, b, c in LINES:
        if board[a] != "." and board[a] == board[b] == board[c]:
            return board[a]
    return None


def to_move(board: str) -> str:
    """Returns whose turn it is; X begins."""
    return MARKS[(9 - board.count(".")) % 2]


@cache
def value(board: str) -> int:
    """Returns what the position is worth to the player to move under perfect play.

    Positive: a win, the greater the sooner; 0: a draw; negative: a loss, the smaller the sooner.
    """
    if winner(board):
        return -1 - board.count(".")
    return max((-value(child) for _, child in children(board)), default=0)


def children(board: str) -> list[tuple[int, str]]:
    """Returns every cell the player to move can take, and the board after it."""
    return [(cell, put(board, cell, to_move(board))) for cell in empty(board)]


def best_cells(board: str) -> list[int]:
    """Returns the cells that are perfect play."""
    return [cell for cell, child in children(board) if -value(child) == value(board)]


def greedy_cells(board: str) -> list[int]:
    """Returns the cells that win at once, else those that stop the other from it, else all."""
    me = to_move(board)
    for mark in (me, MARKS[me == "X"]):
        if threats := [cell for cell in empty(board) if winner(put(board, cell, mark))]:
            return threats
    return empty(board)


def symmetric(board: str) -> str:
    """Returns the same text for a board and all its rotations and reflections."""
    seen = []
    for _ in range(4):
        board = "".join(board[6 + row - 3 * col] for row in range(3) for col in range(3))
        seen += [board, "".join(board[3 * row + 2 - col] for row in range(3) for col in range(3))]
    return min(seen)


def _openings() -> Tasks:
    """Openings of 0 to 2 plies; every fourth class of symmetric positions is for testing."""
    openings = [cells for plies in range(3) for cells in permutations(CELLS, plies)]
    classes = list(dict.fromkeys(symmetric(after(cells)) for cells in openings))
    held_out = set(classes[3::4])
    names: tuple[list[str], list[str]] = ([], [])
    for cells in openings:
        names[symmetric(after(cells)) in held_out].append("opening/" + "-".join(cells))
    return Tasks(*names)


TASKS = _openings()


@dataclass
class State:
    """The board, row by row, and the mark of the player who gave up, if one did."""

    board: str
    resigned: str = ""


class TicTacToe(TextGame):
    """Three in a row on a board of nine numbered cells, for two.

    ## Description
    player_0 has X and begins; player_1 has O. Who first has three marks in a row, column or
    diagonal wins; a full board is a draw, which is what perfect play from an empty one leads to.

    ## Action Space
    Text: the number of an empty cell, `1` to `9`. With `action_mode="discrete"`: its index.

    ## Observation Space
    Text: the board with the numbers of the empty cells, one's mark, and whose turn it is.

    ## Rewards
    Term `task`, at the end: 1 for a win, -1 for a loss, 0 for a draw. Zero-sum. An invalid action
    costs `invalid_penalty`.

    ## Starting State
    The task is an opening of 0 to 2 moves already made: `opening/`, `opening/5`, `opening/5-1`.
    Openings that are rotations or reflections of each other are all training or all test tasks.

    ## Episode End
    Termination: a win, a full board, or `max_invalid` invalid actions in a row, which lose the
    game. Truncation: after `max_turns` turns (invalid actions count).

    ## Information
    The common keys; `success` is a win; `progress` is 1 for a win, 0.5 for a draw.

    ## Arguments
    `max_turns`: default None. `max_invalid`: default 3. As a single seat: `seat` ("player_0",
    "player_1" or None: drawn) and `opponents`: "random", "greedy" (the default: wins if it
    can, else blocks if it must, else random) or "optimal" (perfect play, at random among equally
    good moves).

    ## Example Transcript
    ```
    You are X. It is your turn.
     1 | O | 3
    ---+---+---
     4 | X | 6
    ---+---+---
     7 | 8 | 9
    > 1
    ```

    ## Baselines
    Mean return (share of wins) of a single seat, seat and test opening drawn, 1,000 episodes:

    | opponents | random | expert |
    |---|---|---|
    | random | -0.02 (0.44) | 0.83 (0.87) |
    | greedy | -0.80 (0.04) | 0.34 (0.49) |
    | optimal | -0.82 (0.04) | -0.04 (0.33) |

    Some openings are won already, so that not every game of perfect players is a draw.

    ## Registered Configurations
    `TicTacToe-v0`.

    ## References
    The game is ancient. Perfect play by minimax with memory: 5,478 positions.

    ## Version History
    v0: first version.
    """

    tasks = TASKS
    State = State
    state: State
    actions = CELLS
    zero_sum = True
    levels = ("random", "greedy", "optimal")
    expert_level = "optimal"
    default_opponents = "greedy"

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.instructions = (
            "You play tic-tac-toe on a board of nine cells numbered 1 to 9. Players take turns "
            "putting their mark on an empty cell; three in a row, column or diagonal win. On your "
            "turn, say only the number of the cell. Who says something else "
            f"{self.max_invalid} times in a row loses."
        )

    def _start(self, task: str) -> None:
        opening = task.removeprefix("opening/")
        self.state = State(after(tuple(opening.split("-")) if opening else ()))

    def _winner(self) -> str | None:
        """Returns the winning mark, or None while there is none."""
        resigned = self.state.resigned
        return MARKS[resigned == "X"] if resigned else winner(self.state.board)

    def _acting(self) -> tuple[str, ...]:
        board = self.state.board
        if self._winner() or not empty(board):
            return ()
        return (self.possible_agents[MARKS.index(to_move(board))],)

    def _look(self, agent: str) -> TimeStep:
        board, won = self.state.board, self._winner()
        mark = MARKS[self.possible_agents.index(agent)]
        draw = won is None and not empty(board)
        if draw:
            says = "The game is a draw."
        elif won:
            says = "You win." if won == mark else "You lose."
        else:
            says = "It is your turn." if to_move(board) == mark else "It is the other's turn."
        if self.state.resigned:
            says += f" {self.state.resigned} gave up."
        return TimeStep(
            text=f"You are {mark}. {says}\n{self.picture()}",
            success=won == mark,
            progress=1.0 if won == mark else 0.5 * draw,
            admissible=tuple(CELLS[cell] for cell in empty(board)),
        )

    def _advance(self, moves: dict[str, str]) -> Rewards:
        ((agent, move),) = moves.items()
        mark = MARKS[self.possible_agents.index(agent)]
        if move == RESIGN:
            self.state.resigned = mark
        else:
            self.state.board = put(self.state.board, CELLS.index(move), mark)
        won = self._winner()
        if won is None:
            return {}
        return self._pay(1.0 if mark == won else -1.0 for mark in MARKS)

    def _fallback(self, agent: str) -> str:
        return RESIGN

    def _script(self, level: str, agent: str, rng: np.random.Generator) -> str:
        cells = (greedy_cells if level == "greedy" else best_cells)(self.state.board)
        return CELLS[cells[int(rng.integers(len(cells)))]]

    def picture(self) -> str:
        """Returns the board, with numbers in the empty cells."""
        shown = [CELLS[i] if mark == "." else mark for i, mark in enumerate(self.state.board)]
        rows = [" " + " | ".join(shown[i : i + 3]) for i in (0, 3, 6)]
        return "\n---+---+---\n".join(rows)


env, raw_env, parallel_env = make_pettingzoo(TicTacToe)
