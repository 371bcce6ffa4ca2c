"""TicTacToe: two-player tic-tac-toe."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import permutations
from typing import ClassVar

import numpy as np

from agentgym.errors import ConfigError
from agentgym.multiagent.game import TextGame
from agentgym.multiagent.pettingzoo import make_pettingzoo
from agentgym.multiagent.rules import Rewards
from agentgym.rendering import Cell, Scene
from agentgym.rendering.scene import BLUE, GREY, RED
from agentgym.tasks import Tasks
from agentgym.time_step import TimeStep

CELLS = tuple("123456789")
MARKS = "XO"
LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))
RESIGN = "resign"


def after(cells: tuple[str, ...]) -> str:
    """Returns the board after X and O took these cells in turn. "." is an empty cell."""
    board = ["."] * 9
    for ply, cell in enumerate(cells):
        board[int(cell) - 1] = MARKS[ply % 2]
    return "".join(board)


def put(board: str, cell: int, mark: str) -> str:
    """Returns the board with a mark placed on a cell."""
    return board[:cell] + mark + board[cell + 1 :]


@cache
def empty(board: str) -> tuple[int, ...]:
    """Returns the empty cells."""
    return tuple(cell for cell in range(9) if board[cell] == ".")


@cache
def winner(board: str) -> str | None:
    """Returns the mark with three in a row, or None."""
    for a, b, c in LINES:
        if board[a] != "." and board[a] == board[b] == board[c]:
            return board[a]
    return None


@cache
def free(board: str) -> tuple[str, ...]:
    """Returns the numbers of the empty cells."""
    return tuple(CELLS[cell] for cell in empty(board))


def to_move(board: str) -> str:
    """Returns the mark of the player to move. X moves first."""
    return MARKS[(9 - board.count(".")) % 2]


@cache
def value(board: str) -> int:
    """Returns the minimax value of a position for the player to move.

    Positive for a win, 0 for a draw, negative for a loss. Faster wins and slower losses have higher
    values.
    """
    if winner(board):
        return -1 - board.count(".")
    return max((-value(child) for _, child in children(board)), default=0)


def children(board: str) -> list[tuple[int, str]]:
    """Returns every legal move with the board after it."""
    return [(cell, put(board, cell, to_move(board))) for cell in empty(board)]


@cache
def best_cells(board: str) -> tuple[int, ...]:
    """Returns the optimal moves."""
    return tuple(cell for cell, child in children(board) if -value(child) == value(board))


@cache
def greedy_cells(board: str) -> tuple[int, ...]:
    """Returns the winning moves, or else the blocking moves, or else all legal moves."""
    me = to_move(board)
    for mark in (me, MARKS[me == "X"]):
        if threats := tuple(cell for cell in empty(board) if winner(put(board, cell, mark))):
            return threats
    return empty(board)


@cache
def drawn(board: str) -> str:
    """Returns the board as text, with numbers in the empty cells."""
    shown = [CELLS[i] if mark == "." else mark for i, mark in enumerate(board)]
    rows = [" " + " | ".join(shown[i : i + 3]) for i in (0, 3, 6)]
    return "\n---+---+---\n".join(rows)


def in_line(board: str) -> str:
    """Returns the board as a line of nine marks, with "-" in the empty cells."""
    return "Board: " + " ".join(board.replace(".", "-"))


def symmetric(board: str) -> str:
    """Returns a canonical form, equal for all rotations and reflections of a board."""
    seen = []
    for _ in range(4):
        board = "".join(board[6 + row - 3 * col] for row in range(3) for col in range(3))
        seen += [board, "".join(board[3 * row + 2 - col] for row in range(3) for col in range(3))]
    return min(seen)


def _openings() -> Tasks:
    """Returns openings of 0 to 2 moves. Every fourth symmetry class is a test class."""
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
    """The board, row by row, and the mark of the player who resigned, if any."""

    board: str
    resigned: str = ""


DRAWINGS = {"drawn": drawn, "line": in_line}
"""Texts of a board, by the value of the argument `board`."""


class TicTacToe(TextGame):
    """Two-player tic-tac-toe on a board of nine numbered cells.

    ## Description
    `player_0` plays X and moves first. `player_1` plays O. The first player with three marks in a
    row, column or diagonal wins. A full board without three in a row is a draw. With perfect play
    by both, the game from the empty board is a draw.

    ## Action Space
    Text: the number of an empty cell, `1` to `9`. With `action_mode="discrete"`: its index.

    ## Observation Space
    Text: the agent's mark, whose turn it is, and the board, which shows the numbers of the empty
    cells. With `board="line"`, it is a line of nine marks, with "-" in the empty cells, which has
    the same number of tokens in every position.

    ## Rewards
    Term `task`, at the end of the game: 1 for a win, 0 for a draw, -1 for a loss. Zero-sum. An
    invalid action costs `invalid_penalty`.

    ## Starting State
    The task is an opening of 0 to 2 moves that are already played: `opening/`, `opening/5`,
    `opening/5-1`. Openings that are rotations or reflections of each other belong to the same
    split. Few starts exist, and the splits share positions that several openings lead to.

    ## Episode End
    - Termination: a player wins, the board is full, or a player loses by `max_invalid` invalid
      actions in a row.
    - Truncation: after `max_turns` turns. Invalid actions count as turns.

    ## Information
    The common keys. `success`: the agent wins. `progress`: 1 for a win, 0.5 for a draw, otherwise
    0.

    ## Arguments
    - `max_turns` (int or None, default None): number of turns after which the episode is truncated.
    - `max_invalid` (int, default 3): number of invalid actions in a row that lose the game.
    - `board` (str, default "drawn"): "drawn" in three rows, or "line".

    As a single seat:

    - `seat` (str or None, default None): "player_0", "player_1", or None to sample one at each
      reset.
    - `opponents` (str or dict, default "greedy"): the opponent's policy.
        - "random": uniformly random moves.
        - "greedy": wins if possible, otherwise blocks if necessary, otherwise moves at random.
        - "optimal": perfect play, sampled uniformly from equally good moves.

    ## Notes
    The expert is "optimal". Some openings are already decided, so perfect play by both players does
    not always end in a draw.

    ## References
    Perfect play is computed by minimax search with memoisation over all 5,478 positions.

    ## Version History
    v0: first version.
    """

    tasks = TASKS
    State = State
    declares: ClassVar[dict[str, str]] = {
        "semantic.train_test_disjoint": "openings of different classes can lead to equal games",
        "semantic.duplicate_tasks": "a board has few openings",
    }
    state: State
    actions = CELLS
    zero_sum = True
    levels = ("random", "greedy", "optimal")
    expert_level = "optimal"
    default_opponents = "greedy"

    def __init__(self, *, board: str = "drawn", **kwargs):
        super().__init__(**kwargs)
        if board not in DRAWINGS:
            raise ConfigError(f"board must be one of {list(DRAWINGS)}, got {board!r}.")
        self.draw = DRAWINGS[board]
        shown = ' The board shows them in a line, with "-" in empty cells.' * (board == "line")
        self.instructions = (
            "You play tic-tac-toe against an opponent.\n"
            "Rules:\n"
            f"- Players take turns marking an empty cell. Cells are numbered 1 to 9.{shown}\n"
            "- The first player with three marks in a row, column or diagonal wins. A full board "
            "is a draw.\n"
            "Action: the number of an empty cell, for example: 5\n"
            "Scoring: 1 for a win, 0 for a draw, -1 for a loss. You lose after "
            f"{self.max_invalid} invalid action{'s' * (self.max_invalid > 1)} in a row."
        )

    def _start(self, task: str) -> None:
        opening = task.removeprefix("opening/")
        self.state = State(after(tuple(opening.split("-")) if opening else ()))

    def starts(self) -> Iterator[tuple[float, State]]:
        """Yields the empty board."""
        yield 1.0, State(after(()))

    def privileged_text(self, agent: str) -> str:
        """Returns the result of perfect play."""
        mark = MARKS[self.possible_agents.index(agent)]
        ahead = value(self.state.board) * (1 if to_move(self.state.board) == mark else -1)
        return f"Perfect play: {'win' if ahead > 0 else 'loss' if ahead < 0 else 'draw'}."

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
            status = "The game is a draw."
        elif won:
            status = "You win." if won == mark else "You lose."
        else:
            status = "It is your turn." if to_move(board) == mark else "It is your opponent's turn."
        if self.state.resigned:
            status += f" {self.state.resigned} resigned."
        return TimeStep(
            text=f"You are {mark}. {status}\n{self.picture()}",
            success=won == mark,
            progress=1.0 if won == mark else 0.5 * draw,
            admissible=free(board),
        )

    def _admissible_actions(self, agent: str) -> tuple[str, ...]:
        return free(self.state.board)

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

    def _cells(self, level: str) -> tuple[int, ...]:
        """Returns the cells that a scripted player chooses from."""
        return (greedy_cells if level == "greedy" else best_cells)(self.state.board)

    def _script(self, level: str, agent: str, rng: np.random.Generator) -> str:
        cells = self._cells(level)
        return CELLS[cells[int(rng.integers(len(cells)))]]

    def script_probabilities(self, level: str, agent: str) -> np.ndarray:
        """Returns the probabilities of a scripted player's moves, uniform over its cells."""
        board = self.state.board
        cells = empty(board) if level == "random" else self._cells(level)
        return np.array([cell in cells for cell in empty(board)]) / len(cells)

    def _frame(self, agent: str | None) -> Scene:
        marks = {"X": Cell(shape="cross", color=RED), "O": Cell(shape="ring", color=BLUE)}
        cells = [
            marks.get(mark) or Cell(color=GREY, label=str(number))
            for number, mark in enumerate(self.state.board, 1)
        ]
        return Scene([cells[row : row + 3] for row in (0, 3, 6)])

    def picture(self) -> str:
        """Returns the board as agents see it."""
        return self.draw(self.state.board)


env, raw_env, parallel_env = make_pettingzoo(TicTacToe)
