"""ChessEndgames: checkmate a lone king with queens and rooks."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from agentgym.envs.chess.game import GOAL, Chess, playable
from agentgym.errors import DataError
from agentgym.tasks import Tasks, task_rng
from agentgym.time_step import TimeStep

ENDGAMES = ("KQK", "KRK", "KQQK", "KRRK", "KQRK")


class ChessEndgames(Chess):
    """Checkmate a lone king with a king and one or two queens or rooks.

    ## Description
    The chess endgames of LMRL-Gym. The agent plays White and moves first in a generated position
    that it can win by force.

    ## Action Space
    Text, one move in standard algebraic notation (`Kd4`, `Qg7#`) or as start and target square
    (`d2d8`).

    ## Observation Space
    Text: the position after Black's move in Forsyth-Edwards notation (FEN).

    ## Rewards
    Term `task`: 1 for checkmate, -1 for being checkmated, 0 for a draw and for all other moves. An
    illegal move costs 1 (`invalid_penalty`) and leaves the position unchanged.

    ## Starting State
    A legal position with White's king and pieces and Black's king, generated from the task's name.
    White is to move and no king is in check. With `positions`, a line of the file.

    ## Episode End
    - Termination: checkmate, or a draw by stalemate, insufficient material, fivefold repetition or
      75 moves without a capture. A null move (`--`) is invalid and resigns.
    - Truncation: after `max_turns` moves of White.

    ## Information
    The common keys.
    - `progress`: in [0, 0.9], larger the closer the lone king is to the edge, the corners and
      White's king. 1 for a win. With other material as in `Chess`.
    - `admissible` and `state_key` as in `Chess`.

    ## Arguments
    Those of `Chess` except `position` and `opening`, and:
    - `pieces` (list of str, default ["KQK", "KRK", "KQQK", "KRRK"]): endgames to sample from. Each
      name lists White's king and pieces, then Black's king: "KQK", "KRK", "KQQK", "KRRK" or "KQRK".
    - `positions` (str or None, default None): a file of positions to use instead, one FEN per line
      with White to move. Every fifth line is a test task.
    - `opponent` (str, default "alpha-beta") and `depth` (int, default 1): with this depth the lone
      king avoids the edge and captures undefended pieces.

    ## References
    LMRL-Gym (arXiv 2311.18232), section on chess endgames. Its 645 positions are not distributed.
    Your own file of positions can be used.

    ## Version History
    v0: first version.
    """

    instructions = Chess.instructions.replace(
        GOAL, "You play White in a chess endgame. Checkmate the black king to win."
    )

    def __init__(
        self,
        *,
        pieces: list[str] | tuple[str, ...] = ("KQK", "KRK", "KQQK", "KRRK"),
        positions: str | None = None,
        opponent: str = "alpha-beta",
        depth: int = 1,
        **kwargs,
    ):
        for name in ("position", "opening"):
            if name in kwargs:
                raise ValueError(f"ChessEndgames has no argument {name!r}: use Chess.")
        super().__init__(opponent=opponent, depth=depth, **kwargs)
        for name in pieces:
            if name not in ENDGAMES:
                raise ValueError(f"pieces must be names out of {ENDGAMES}, got {name!r}.")
        if not pieces:
            raise ValueError(f"pieces must name at least one of {ENDGAMES}.")
        self.pieces = tuple(pieces)
        self._fens: dict[str, str] = {}
        self.tasks = Tasks.generated()
        if positions is not None:
            self._fens = {f"line/{i}": fen for i, fen in enumerate(read_positions(positions))}
            names = tuple(self._fens)
            train = tuple(name for i, name in enumerate(names) if i % 5)
            self.tasks = Tasks(train=train, test=names[::5])

    def _start(self, task: str) -> TimeStep:
        self._begin(self._fens.get(task) or draw_endgame(self.pieces, task_rng(task)))
        return self._look()

    def _progress(self) -> float:
        from agentgym.envs.chess.engine import confinement

        if self._board.occupied_co[False].bit_count() > 1:
            return super()._progress()
        return 0.9 * confinement(self._board, False)


def draw_endgame(pieces: tuple[str, ...], rng: np.random.Generator) -> str:
    """Samples the FEN of a legal position with White to move and no check, as in LMRL-Gym."""
    import chess

    name = pieces[int(rng.integers(len(pieces)))]
    while True:
        board = chess.Board(None)
        squares = rng.choice(64, size=len(name), replace=False)
        for letter, square in zip(name[:-1] + "k", squares, strict=True):
            board.set_piece_at(int(square), chess.Piece.from_symbol(letter))
        if board.is_valid() and not board.is_check():
            return board.fen()


def read_positions(path: str) -> list[str]:
    """Returns the positions of a file with one FEN per line."""
    try:
        lines = Path(path).read_text("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"The file of positions {path!r} cannot be read: {error}") from error
    fens = [
        playable(line.strip(), f"line {number} of {path!r}")
        for number, line in enumerate(lines, 1)
        if line.strip()
    ]
    if len(fens) < 2:
        raise DataError(
            f"{path!r} must have at least 2 positions, one FEN per line, but has {len(fens)}."
        )
    return fens
