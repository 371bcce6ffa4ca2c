"""Distance to mate in every position of king and queen, or king and rook, against king."""

from __future__ import annotations

from functools import cache

import chess
import numpy as np

UNKNOWN = 255
STEPS = [(1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (1, -1), (-1, 1), (-1, -1)]


@cache
def mate_distances(piece: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns the half-moves to mate for all positions of White's king and piece and Black's king.

    The tables are solved backwards from the mates. Black has lost if every move leads to a position
    that White has won. White has won if some move leads to a position that Black has lost.

    Args:
        piece: "Q" or "R".

    Returns:
        White to move, Black to move: arrays [K, piece, k] of squares 0 (a1) to 63 (h8), shape
        (64, 64, 64). The value is 255 if no mate can be forced or the position is not legal.
    """
    attacks = _attacks(STEPS[:4] if piece == "R" else STEPS)
    near = _near()
    square = np.arange(64)
    apart = ~near & ~np.eye(64, dtype=bool)  # [K, k]
    distinct = (square[:, None] != square)[:, :, None] & (square[:, None] != square)[None]
    placed = apart[:, None, :] & distinct
    # Squares that Black's king may enter. Capturing the piece counts as an escape.
    free = apart[:, None, :] & ~attacks
    check = attacks & placed
    white_wins = np.zeros((64, 64, 64), dtype=bool)
    black_lost = np.zeros((64, 64, 64), dtype=bool)
    to_white = np.full((64, 64, 64), UNKNOWN, dtype=np.uint8)
    to_black = to_white.copy()
    has_move = _any(free, near)
    for plies in range(0, 100, 2):
        escapes = _any(free & ~white_wins, near)
        new = placed & ~escapes & ~black_lost & (check | has_move)
        if not new.any():
            break
        black_lost |= new
        to_black[new] = plies
        by_piece = _product(attacks & (square[:, None] != square)[:, None, :], new)
        by_king = _product(near, new.reshape(64, -1)).reshape(64, 64, 64)
        won = placed & ~check & ~white_wins & (by_piece | by_king)
        white_wins |= won
        to_white[won] = plies + 1
    return to_white, to_black


def solved_move(board: chess.Board) -> chess.Move | None:
    """Returns White's move of the shortest mate in KQK and KRK, or None in other positions."""
    piece = (board.queens | board.rooks) & board.occupied_co[chess.WHITE]
    if board.occupied.bit_count() != 3 or not piece or board.turn == chess.BLACK:
        return None
    distances = mate_distances("Q" if board.queens else "R")[1]

    def distance(move: chess.Move) -> int:
        board.push(move)
        piece = chess.lsb(board.queens | board.rooks)
        left = distances[board.king(chess.WHITE), piece, board.king(chess.BLACK)]
        board.pop()
        return int(left)

    return min(board.legal_moves, key=distance)


def _attacks(steps: list[tuple[int, int]]) -> np.ndarray:
    """Returns [K, piece, s]: whether the piece attacks s. Only White's king blocks it."""
    attacks = np.zeros((64, 64, 64), dtype=bool)
    for start in range(64):
        for up, right in steps:
            open_to = np.ones(64, dtype=bool)
            rank, file = start // 8 + up, start % 8 + right
            while 0 <= rank < 8 and 0 <= file < 8:
                attacks[:, start, 8 * rank + file] = open_to
                open_to[8 * rank + file] = False
                rank, file = rank + up, file + right
    return attacks


def _near() -> np.ndarray:
    rank, file = np.divmod(np.arange(64), 8)
    apart = np.maximum(abs(rank[:, None] - rank), abs(file[:, None] - file))
    return apart == 1


def _product(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Returns the boolean matrix product: whether any step of `left` leads into `right`."""
    return np.matmul(left.astype(np.float32), right.astype(np.float32)) > 0


def _any(targets: np.ndarray, near: np.ndarray) -> np.ndarray:
    """Returns [K, piece, k]: whether any square next to k is a target."""
    return _product(targets, near)
