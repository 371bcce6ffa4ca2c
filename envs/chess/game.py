"""Chess against a built-in opponent or Stockfish, from the initial or any other position."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from agentgym.core import TextEnv
from agentgym.errors import ConfigError, MissingExtraError
from agentgym.rendering import Cell, Scene
from agentgym.rendering.scene import INK
from agentgym.tasks import Tasks, task_rng
from agentgym.time_step import TimeStep

if TYPE_CHECKING:
    import chess

OPPONENTS = ("random", "greedy", "alpha-beta", "stockfish")
VIEWS = ("fen", "spaced", "diagram")
EXPECTED = "Answer with one legal move, for example Nf3 or g1f3."
NULL_MOVES = ("--", "0000", "Z0", "@@@@")
GOAL = "You play chess as White. Checkmate the black king to win."
SHOWN = {
    "fen": "",
    "spaced": ", with a space between characters",
    "diagram": " below a diagram of the board",
}
"""The instructions' description of each view."""
INITIAL = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"


SQUARES = "#e9d8b8", "#b58863"
"""The colours of the squares in the picture."""


@dataclass
class State:
    """The start position and all moves of both sides since, in UCI notation (e2e4)."""

    start: str
    moves: list[str] = field(default_factory=list)


def expected_score(material: int) -> float:
    """Returns the expected score for a material advantage in hundredths of a pawn.

    A pawn is worth about a hundred Elo points, hence 1 / (1 + 10^(-m / 400)).
    """
    return 1 / (1 + 10 ** (-material / 400))


def describe(board: chess.Board, fen: str, view: str) -> str:
    """Returns the position as FEN, as FEN with spaces, or as a diagram and FEN."""
    if view == "spaced":
        return " ".join(fen)
    if view == "fen":
        return fen
    rows = [f"{8 - i} {row}" for i, row in enumerate(str(board).splitlines())]
    return "\n".join([*rows, "  a b c d e f g h", fen])


def _square(piece: str, ground: str) -> Cell:
    """Returns a square of the picture with its piece, such as "K" (White), "k" or "."."""
    if piece == ".":
        return Cell(ground)
    return Cell(ground, "disc", "#ffffff" if piece.isupper() else INK, piece.upper())


class Chess(TextEnv):
    """Play a game of chess as White against a built-in opponent or Stockfish.

    ## Description
    The chess task of LMRL-Gym. The agent plays White and observes the position. Black is played by
    a built-in opponent, or by Stockfish if it is installed.

    ## Action Space
    Text, one move in either notation:
    - standard algebraic notation: `e4`, `Nf3`, `exd5`, `O-O`, `e8=Q`. The signs for check and mate
      are optional, and characters may be separated by spaces.
    - start and target square: `e2e4`, `e7e8q`, `e2-e4`

    Move numbers (`1. e4`), figurines, `0-0`, `e.p.` and `!` are read, too. Two moves are illegal.

    ## Observation Space
    Text: the position after Black's move in Forsyth-Edwards notation (FEN).

    ## Rewards
    Term `task`: 1 for checkmate, -1 for being checkmated, 0 for a draw and for all other moves. An
    illegal move costs 1 (`invalid_penalty`) and leaves the position unchanged.

    ## Starting State
    The initial position, after `opening` random half-moves that the task determines. Few starts
    exist with few half-moves. With 0, the default, there is one, the splits share it, and the seed
    decides the game.

    ## Episode End
    - Termination: checkmate, stalemate, insufficient material, 75 moves without a capture or pawn
      move, or fivefold repetition. A null move (`--`) is invalid and resigns.
    - Truncation: after `max_turns` moves of White.

    ## Information
    The common keys.
    - `progress`: the expected score for the current material balance, 1 for a win, 0.5 for a draw
      and 0 for a loss.
    - `admissible`: the legal moves in the chosen notation.
    - `state_key`: a digest of the position without the move counters.

    ## Arguments
    - `opponent` (str, default "greedy"): "random", "greedy" (mates if it can, otherwise makes the
      move that wins most material), "alpha-beta" (searches `depth` half-moves and then captures) or
      "stockfish".
    - `depth` (int, default 2): search depth of "alpha-beta" in half-moves, 1 to 6.
    - `position` (str, default the initial position): FEN of the start position.
    - `opening` (int, default 0): number of random half-moves at the start, even. They must not end
      the game: one in a hundred openings from `position` has to leave it going on.
    - `notation` (str, default "san"): "san" or "uci", the notation of `admissible`.
    - `view` (str, default "fen"): "fen", "spaced" (FEN with a space between characters, as in
      LMRL-Gym) or "diagram" (a board above the FEN).
    - `engine` (str or None, default None): path of the Stockfish program. By default it is searched
      on the `PATH`.
    - `elo` (int or None, default None): strength of Stockfish.
    - `nodes` (int, default 10,000): positions that Stockfish searches per move.
    - `max_turns` (int or None, default 400): moves of White before truncation.
    - `invalid_penalty` (float, default 1): cost of an illegal move.

    ## Notes
    With `elo`, Stockfish samples its own random numbers, so episodes are not reproducible.

    ## References
    - LMRL-Gym (arXiv 2311.18232), section on chess. Rewards, illegal moves and endings are the
      same. Its opponent is Stockfish with 1200 Elo.
    - Rules of the game: python-chess (extra `chess`).

    ## Version History
    v0: first version.
    """

    instructions = (
        f"{GOAL}\n"
        "Each turn you see the position after Black's move in Forsyth-Edwards notation "
        "(FEN){view}:\n"
        "- the board from rank 8 to rank 1, with capital letters for White's pieces, lower-case "
        "letters for Black's pieces and digits for empty squares\n"
        "- then the side to move, castling rights, the en passant square and the move counters\n"
        "Answer with exactly one legal move in either notation:\n"
        "- standard algebraic notation, for example: Nf3, exd5, O-O or e8=Q\n"
        "- start and target square, for example: g1f3 or e7e8q\n"
        "Scoring:\n"
        "- Checkmate scores 1, being checkmated -1 and a draw 0.\n"
        "- An illegal move costs {penalty}, and you must move again.\n"
        "- The null move (--) resigns and costs {penalty}.\n"
        "The game ends with checkmate, stalemate, insufficient material, fivefold repetition, or "
        "75 moves without a capture or pawn move."
    )
    State = State
    declares: ClassVar[dict[str, str]] = {
        "semantic.train_test_disjoint": "all games have one start: the seed makes them new",
    }
    cased = True  # "bxc3" and "Bxc3" are two moves

    def __init__(
        self,
        *,
        opponent: str = "greedy",
        depth: int = 2,
        position: str = INITIAL,
        opening: int = 0,
        notation: str = "san",
        view: str = "fen",
        engine: str | None = None,
        elo: int | None = None,
        nodes: int = 10_000,
        max_turns: int | None = 400,
        invalid_penalty: float = 1.0,
        **kwargs,
    ):
        try:
            import chess
        except ImportError as error:
            raise MissingExtraError(type(self).__name__, "chess", "chess") from error
        super().__init__(max_turns=max_turns, invalid_penalty=invalid_penalty, **kwargs)
        for name, value, known in (
            ("opponent", opponent, OPPONENTS),
            ("notation", notation, ("san", "uci")),
            ("view", view, VIEWS),
        ):
            if value not in known:
                raise ValueError(f"{name} must be one of {known}, got {value!r}.")
        if not 1 <= depth <= 6:
            raise ValueError(f"depth must be in [1, 6], got {depth}.")
        if opening % 2 or not 0 <= opening <= 20:
            raise ValueError(f"opening must be an even number in [0, 20], got {opening}.")
        if nodes < 1:
            raise ValueError(f"nodes must be at least 1, got {nodes}.")
        self.opponent, self.depth = opponent, depth
        self.notation, self.view = notation, view
        self.elo, self.nodes = elo, nodes
        self.program = _found(engine) if opponent == "stockfish" else ""
        self.position = playable(position)
        self.opening = opening
        self.tasks = Tasks.generated() if opening else Tasks(train=["train"], test=["test"])
        self._board = chess.Board()
        self._moves: dict[str, Any] = {}
        if opening:
            from agentgym.envs.chess.engine import check_opening

            check_opening(self.position, opening)
        text = self.instructions.replace("{view}", SHOWN[view])
        self.instructions = text.replace("{penalty}", f"{self.invalid_penalty:g}")

    def _start(self, task: str) -> TimeStep:
        self._begin(self._opened(task) if self.opening else self.position)
        return self._look()

    def _opened(self, task: str) -> str:
        """Returns the position after the random opening moves of a task, if the game goes on."""
        from agentgym.envs.chess.engine import random_opening

        rng = task_rng(task)
        while (board := random_opening(self.position, self.opening, rng)).is_game_over():
            pass  # ends soon, since `check_opening` has found one
        return board.fen()

    def _begin(self, fen: str) -> None:
        import chess

        self.state = State(fen)
        self._board = chess.Board(fen)

    def _advance(self, action: str) -> TimeStep:
        name = "".join(action.split()) if len(action) < 100 else action
        if name in NULL_MOVES:
            self._moves = {}
            return TimeStep(
                text="You resigned.",
                terminated=True,
                valid=False,
            )
        move = self._moves.get(name) or self._legal(name) or self._written(action)
        if move is None:
            return self._invalid(f"{action[:40]!r} is not a legal move here. {EXPECTED}")
        self._push(move)
        if self._board.is_game_over():
            return self._look()
        answer = self._answer()
        name = self._board.san(answer)
        self._push(answer)
        return self._look(feedback=f"Black plays {name}.")

    def _legal(self, name: str) -> chess.Move | None:
        """Returns the legal move of a name, or None if there is none."""
        if not 2 <= len(name) <= 10:
            return None
        for parse in (self._board.parse_san, self._board.parse_uci):
            try:
                return parse(name) or None  # a null move is falsy
            except ValueError:
                continue
        return None

    def _written(self, action: str) -> chess.Move | None:
        """Returns the legal move of a text such as "1. e4" or "exd6 e.p.", or None."""
        from agentgym.envs.chess.notation import move_text

        name, passant = move_text(action)
        move = self._moves.get(name) or self._legal(name)
        return None if move and passant and not self._board.is_en_passant(move) else move

    def _push(self, move: chess.Move) -> None:
        self._board.push(move)
        self.state.moves.append(move.uci())

    def _answer(self) -> chess.Move:
        if self.opponent == "stockfish":
            return self._stockfish.move(self._board)
        from agentgym.envs.chess.engine import make_player

        return make_player(self.opponent, self.depth)(self._board, self.np_random)

    @cached_property
    def _stockfish(self) -> Any:
        from agentgym.envs.chess.stockfish import Stockfish

        return Stockfish(self.program, self.elo, self.nodes)

    def _look(self, feedback: str = "") -> TimeStep:
        from agentgym.envs.chess.engine import named_moves

        board = self._board
        self._moves = named_moves(board) if self.notation == "san" else _squares(board)
        outcome = board.outcome()
        fen = board.fen()
        text, reward = describe(board, fen, self.view), 0.0
        if outcome is not None:
            self._moves = {}
            reward = 0.0 if outcome.winner is None else 1.0 if outcome.winner else -1.0
            result = {0: "Draw", 1: "You win", -1: "You lose"}[int(reward)]
            text += f"\n{result}: {outcome.termination.name.lower().replace('_', ' ')}."
        return TimeStep(
            text=text,
            rewards={"task": reward},
            terminated=outcome is not None,
            success=reward == 1,
            progress=self._progress() if outcome is None else (reward + 1) / 2,
            admissible=tuple(self._moves),
            state_key=fen.rsplit(" ", 2)[0],
            feedback=feedback,
        )

    def _progress(self) -> float:
        from agentgym.envs.chess.engine import material

        return expected_score(material(self._board))

    def expert(self) -> str | None:
        """Returns the move of an alpha-beta search, or of the shortest mate in KQK and KRK."""
        from agentgym.envs.chess.engine import make_player
        from agentgym.envs.chess.solver import solved_move

        board = self._board
        if not self._moves:
            return None
        # Asking the expert must not advance the opponent's random numbers.
        rng = np.random.default_rng(len(self.state.moves))
        move = solved_move(board) or make_player("alpha-beta", 2)(board, rng)
        return board.uci(move) if self.notation == "uci" else board.san(move)

    def _restored(self) -> None:
        """Replays the moves of the snapshot, so that repetitions count."""
        import chess

        from agentgym.envs.chess.engine import named_moves

        self._board = chess.Board(self.state.start)
        for name in self.state.moves:
            self._board.push_uci(name)
        over = self._last is not None and self._last.terminated
        named = named_moves if self.notation == "san" else _squares
        self._moves = {} if over else named(self._board)

    def __getstate__(self) -> dict[str, Any]:
        # A copy starts its own Stockfish process.
        return {name: value for name, value in self.__dict__.items() if name != "_stockfish"}

    def _frame(self) -> Scene:
        rows = [line.split() for line in str(self._board).split("\n")]
        return Scene(
            [
                [_square(piece, SQUARES[(row + column) % 2]) for column, piece in enumerate(pieces)]
                for row, pieces in enumerate(rows)
            ],
            lines=False,
        )

    def _picture(self) -> str:
        assert self._last is not None
        return f"{self._board}\n{self._last.observation}"

    def close(self) -> None:
        """Stops Stockfish if it was started."""
        if "_stockfish" in self.__dict__:
            self.__dict__.pop("_stockfish").close()


def playable(fen: str, where: str = "position") -> str:
    """Returns the FEN if White can move in it.

    Raises:
        ValueError: if it is not a FEN, or not a legal position with White to move.
    """
    import chess

    try:
        board = chess.Board(fen)
    except ValueError as error:
        raise ValueError(f"{where} must be a FEN, got {fen!r:.100}: {error}") from error
    if not board.is_valid() or not board.turn or board.is_game_over():
        raise ValueError(
            f"{where} must be a legal position with White to move and the game not over, "
            f"got {fen!r}."
        )
    return fen


def _squares(board: chess.Board) -> dict[str, chess.Move]:
    return {move.uci(): move for move in board.legal_moves}


def _found(engine: str | None) -> str:
    program = shutil.which(engine or "stockfish")
    if program is None:
        raise ConfigError(
            f"The opponent 'stockfish' requires the program {engine or 'stockfish'!r}, which was "
            "not found. Install it (Debian: apt install stockfish) or pass its path as `engine`."
        )
    return program
