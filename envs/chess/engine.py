"""Built-in chess players (random, greedy, alpha-beta) and fast naming of all legal moves.

Import this module only if python-chess is installed.
"""

from __future__ import annotations

from collections.abc import Callable

import chess
import numpy as np

from agentgym.errors import ConfigError
from agentgym.tasks import task_rng

VALUES = (0, 100, 320, 330, 500, 900, 0)
"""Value in hundredths of a pawn: none, pawn, knight, bishop, rook, queen, king."""
MATE = 100_000
CENTRE = chess.BB_D4 | chess.BB_E4 | chess.BB_D5 | chess.BB_E5
RING = sum(
    chess.BB_SQUARES[8 * rank + file]
    for rank in range(2, 6)
    for file in range(2, 6)
    if not CENTRE & chess.BB_SQUARES[8 * rank + file]
)
BACK = (chess.BB_RANK_1, chess.BB_RANK_8)
LETTERS = " PNBRQK"
PIECES = range(chess.PAWN, chess.KING)
OPENINGS = 100
"""Random openings, of which one has to leave the game going on."""
Player = Callable[[chess.Board, np.random.Generator], chess.Move]


def material(board: chess.Board) -> int:
    """Returns the value of White's pieces minus Black's, in hundredths of a pawn."""
    white, black = board.occupied_co[chess.WHITE], board.occupied_co[chess.BLACK]
    total = 0
    for kind in PIECES:
        mask = board.pieces_mask(kind, True) | board.pieces_mask(kind, False)
        total += VALUES[kind] * ((mask & white).bit_count() - (mask & black).bit_count())
    return total


def confinement(board: chess.Board, loser: chess.Color) -> float:
    """Returns how close a lone king is to being mated, in [0, 1].

    The value is 1 in a corner with the other king two squares away. To mate, the winner drives the
    king to the edge and into a corner with the help of its own king.
    """
    king, other = board.king(loser), board.king(not loser)
    assert king is not None and other is not None
    rank, file = divmod(king, 8)
    edge = max(3 - rank, rank - 4) + max(3 - file, file - 4)
    near = 14 - chess.square_manhattan_distance(king, other)
    return (2 * edge + near) / 24


def evaluate(board: chess.Board) -> int:
    """Returns the evaluation of a position for the side to move, in hundredths of a pawn."""
    total = material(board)
    alone = [board.occupied_co[side].bit_count() == 1 for side in (False, True)]
    if alone[0] != alone[1]:
        loser = alone[1]
        total += round(400 * confinement(board, loser)) * (-1 if loser else 1)
    else:
        total += _placement(board, True) - _placement(board, False)
    return total if board.turn else -total


def _placement(board: chess.Board, side: chess.Color) -> int:
    """Returns a bonus for developed, central pieces and for central and advanced pawns."""
    own = board.occupied_co[side]
    pawns, officers = board.pawns & own, (board.knights | board.bishops) & own
    total = 20 * (pawns & CENTRE).bit_count() + 8 * (pawns & RING).bit_count()
    total += 15 * (officers & (CENTRE | RING)).bit_count()
    total -= 20 * (officers & BACK[not side]).bit_count()
    for rank in range(3, 7):
        row = chess.BB_RANKS[rank if side else 7 - rank]
        total += 4 * (rank - 2) ** 2 * (pawns & row).bit_count()
    return total


def exchange(board: chess.Board, move: chess.Move) -> int:
    """Returns a move's immediate gain: the piece captured minus the piece it may lose in return."""
    taken = board.piece_type_at(move.to_square) or (chess.PAWN if board.is_en_passant(move) else 0)
    gain = VALUES[taken] + (VALUES[move.promotion] - VALUES[1] if move.promotion else 0)
    if board.is_attacked_by(not board.turn, move.to_square):
        gain -= VALUES[move.promotion or board.piece_type_at(move.from_square) or 0]
    return gain


def search(board: chess.Board, depth: int, alpha: int, beta: int) -> int:
    """Returns the value for the side to move by alpha-beta search with quiescence search."""
    quiet = depth <= 0 and not board.is_check()
    if quiet:
        alpha = max(alpha, evaluate(board))
        if alpha >= beta or depth <= -4:
            return alpha
    moves = list(board.generate_legal_captures() if quiet else board.generate_legal_moves())
    if not quiet:
        if not moves:
            return -MATE - depth if board.is_check() else 0
        if board.halfmove_clock >= 100 or board.is_insufficient_material():
            return 0
    moves.sort(key=lambda move: exchange(board, move), reverse=True)
    for move in moves:
        if quiet and exchange(board, move) < 0:
            break
        board.push(move)
        alpha = max(alpha, -search(board, depth - 1, -beta, -alpha))
        board.pop()
        if alpha >= beta:
            break
    return alpha


def alpha_beta(depth: int) -> Player:
    """Returns a player that searches `depth` half-moves and breaks ties at random."""

    def play(board: chess.Board, rng: np.random.Generator) -> chess.Move:
        moves = list(board.legal_moves)
        rng.shuffle(moves)  # type: ignore[arg-type]
        moves.sort(key=lambda move: exchange(board, move), reverse=True)
        best, chosen = -2 * MATE, moves[0]
        for move in moves:
            board.push(move)
            # Repeating a position counts as slightly bad.
            again = board.is_repetition(2)
            value = -10 if again else -search(board, depth - 1, -2 * MATE, -best)
            board.pop()
            if value > best:
                best, chosen = value, move
        return chosen

    return play


def random_move(board: chess.Board, rng: np.random.Generator) -> chess.Move:
    """Samples a legal move uniformly."""
    moves = list(board.legal_moves)
    return moves[int(rng.integers(len(moves)))]


def random_opening(position: str, count: int, rng: np.random.Generator) -> chess.Board:
    """Plays random moves from a position, fewer if they end the game."""
    board = chess.Board(position)
    while not board.is_game_over() and len(board.move_stack) < count:
        board.push(random_move(board, rng))
    return board


def check_opening(position: str, count: int) -> None:
    """Draws openings until one leaves the game going on.

    Raises:
        ConfigError: if the first `OPENINGS` ones end it.
    """
    rng = task_rng(position, "opening")
    if all(random_opening(position, count, rng).is_game_over() for _ in range(OPENINGS)):
        raise ConfigError(
            f"opening must leave the game going on, but {OPENINGS} of {OPENINGS} random openings "
            f"of {count} half-moves end it from the position {position!r}. Give fewer half-moves "
            "or another position."
        )


def greedy_move(board: chess.Board, rng: np.random.Generator) -> chess.Move:
    """Mates if possible, otherwise samples from the moves with the largest immediate gain."""
    moves = list(board.legal_moves)
    checks = checking_moves(board, moves)
    mates = [move for move in moves if move in checks and is_mate(board, move)]
    if mates:
        return mates[0]
    gains = [exchange(board, move) for move in moves]
    best = max(gains)
    moves = [move for move, gain in zip(moves, gains, strict=True) if gain == best]
    return moves[int(rng.integers(len(moves)))]


def make_player(name: str, depth: int) -> Player:
    """Returns the player of a name: "random", "greedy" or "alpha-beta" with this depth."""
    simple = {"random": random_move, "greedy": greedy_move}
    return simple.get(name) or alpha_beta(depth)


def is_mate(board: chess.Board, move: chess.Move) -> bool:
    """Returns whether a move that gives check is checkmate."""
    board.push(move)
    mate = not any(board.generate_legal_moves())
    board.pop()
    return mate


def checking_moves(board: chess.Board, moves: list[chess.Move]) -> set[chess.Move]:
    """Returns the moves that give check.

    For most moves the target square decides. Only special moves and those that leave a line
    through the king are tried on the board.
    """
    king = board.king(not board.turn)
    if king is None:
        return set()
    occupied = board.occupied
    straight = (
        chess.BB_RANK_ATTACKS[king][chess.BB_RANK_MASKS[king] & occupied]
        | chess.BB_FILE_ATTACKS[king][chess.BB_FILE_MASKS[king] & occupied]
    )
    diagonal = chess.BB_DIAG_ATTACKS[king][chess.BB_DIAG_MASKS[king] & occupied]
    squares = (
        0,
        chess.BB_PAWN_ATTACKS[not board.turn][king],
        chess.BB_KNIGHT_ATTACKS[king],
        diagonal,
        straight,
        straight | diagonal,
        0,
    )
    lines = straight | diagonal
    found = set()
    for move in moves:
        source, target = move.from_square, move.to_square
        kind = board.piece_type_at(source) or 0
        special = move.promotion or target == board.ep_square or abs(source - target) == 2
        if special or lines & chess.BB_SQUARES[source]:
            if board.gives_check(move):
                found.add(move)
        elif squares[kind] & chess.BB_SQUARES[target]:
            found.add(move)
    return found


def named_moves(board: chess.Board) -> dict[str, chess.Move]:
    """Returns the legal moves by their names in standard algebraic notation."""
    moves = list(board.legal_moves)
    checks = checking_moves(board, moves)
    kinds = [board.piece_type_at(move.from_square) or 0 for move in moves]
    rivals: dict[tuple[int, int], list[int]] = {}
    for move, kind in zip(moves, kinds, strict=True):
        rivals.setdefault((kind, move.to_square), []).append(move.from_square)
    named = {}
    for move, kind in zip(moves, kinds, strict=True):
        name = _name(board, move, kind, rivals[kind, move.to_square])
        if move in checks:
            name += "#" if is_mate(board, move) else "+"
        named[name] = move
    return named


def _name(board: chess.Board, move: chess.Move, kind: int, rivals: list[int]) -> str:
    """Returns a move's name without the check sign.

    `rivals` are the squares of all such pieces that can reach the target.
    """
    source, target = move.from_square, move.to_square
    square, end = chess.SQUARE_NAMES[source], chess.SQUARE_NAMES[target]
    taking = "x" if board.occupied & chess.BB_SQUARES[target] else ""
    if kind == chess.PAWN:
        start = "" if square[0] == end[0] else f"{square[0]}x"
        return start + end + ("=" + LETTERS[move.promotion] if move.promotion else "")
    if kind == chess.KING and abs(source - target) == 2:
        return "O-O" if target > source else "O-O-O"
    if len(rivals) == 1:
        return LETTERS[kind] + taking + end
    others = [chess.SQUARE_NAMES[other] for other in rivals if other != source]
    same_file = any(other[0] == square[0] for other in others)
    same_rank = any(other[1] == square[1] for other in others)
    which = square if same_file and same_rank else square[1] if same_file else square[0]
    return LETTERS[kind] + which + taking + end
