"""Stockfish, or any other UCI engine, as an opponent."""

from __future__ import annotations

import chess
import chess.engine


class Stockfish:
    """A running UCI engine.

    Args:
        program: the path of the engine.
        elo: the strength it is limited to, or None for full strength.
        nodes: positions to search per move.
    """

    def __init__(self, program: str, elo: int | None, nodes: int):
        self._engine = chess.engine.SimpleEngine.popen_uci(program)
        self._limit = chess.engine.Limit(nodes=nodes)
        if "Threads" in self._engine.options:
            self._engine.configure({"Threads": 1})
        if elo is not None:
            self._engine.configure({"UCI_LimitStrength": True, "UCI_Elo": elo})

    def move(self, board: chess.Board) -> chess.Move:
        """Returns the engine's move."""
        # A new game for every move, so that hash tables of other positions have no effect.
        move = self._engine.play(board, self._limit, game=object()).move
        assert move is not None, "a position that is not over has a move"
        return move

    def close(self) -> None:
        """Stops the engine."""
        self._engine.quit()
