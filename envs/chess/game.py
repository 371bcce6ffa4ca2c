"""Chess: a whole game, or the end of one, against a built-in player or Stockfish."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from agentgym.core import TextEnv, TimeStep
from agentgym.errors import ConfigError, MissingExtraError
from agentgym.tasks import Tasks, task_rng

if TYPE_CHECKING:
    import chess

OPPONENTS = ("random", "greedy", "alpha-beta", "stockfish")
VIEWS = ("fen", "spaced", "diagram")
NULL_MOVES = ("--", "0000", "Z0", "@@@@")
INITIAL = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"


@dataclass
class State:
    """The position at the start and all moves since, both sides', as in e2e4."""

    start: str
    moves: list[str] = field(default_factory=list)


def expected_score(material: int) -> float:
    """Returns the share of points usually scored with so many hundredths of a pawn more.

    One more pawn is worth about a hundred Elo points, hence 1 / (1 + 10^(-m / 400)).
    """
    return 1 / (1 + 10 ** (-material / 400))


def describe(board: chess.Board, fen: str, view: str) -> str:
    """Returns the position as text: FEN, FEN with its characters apart, or FEN and a diagram."""
    if view == "spaced":
        return " ".join(fen)
    if view == "fen":
        return fen
    rows = [f"{8 - i} {row}" for i, row in enumerate(str(board).splitlines())]
    return "\n".join([*rows, "  a b c d e f g h", fen])


class Chess(TextEnv):
    """Play White and win a game of chess.

    ## Description
    Chess as LMRL-Gym plays it: the agent is White and is told the position; a player that comes
    with AgentGym, or Stockfish where it is installed, answers for Black.

    ## Action Space
    Text: a move in standard algebraic notation (`e4`, `Nf3`, `exd5`, `O-O`, `e8=Q`; signs for check
    may be left out, characters may stand apart) or as squares (`e2e4`, `e7e8q`).

    ## Observation Space
    Text: the position in Forsyth-Edwards notation (FEN), after Black's move.

    ## Rewards
    Term `task`: 1 for mating, -1 for being mated, 0 for a draw and for every other move. An illegal
    move costs 1 (`invalid_penalty`) and the position stays.

    ## Starting State
    The initial position, or with `opening` half-moves that were drawn by the task's name.

    ## Episode End
    Termination: mate, stalemate, too little material, 75 moves without a capture or a move of a
    pawn, the same position five times; a null move (`--`), which is illegal, gives up.
    Truncation: after `max_turns` moves of White.

    ## Information
    The common keys; `progress`: the share of points usually scored with such material, 1 for a
    win, 0 for a loss, 0.5 for a draw. `admissible`: the legal moves in the chosen notation.
    `state_key`: the position without the counters of moves.

    ## Arguments
    `opponent`: "random", "greedy" (mates if it can, else takes what is loose), "alpha-beta"
    (`depth` half-moves ahead, captures played out) or "stockfish" (`engine`: the program, found on
    the path by default; `elo`: its strength, `nodes`: its effort a move. Weakened by `elo`, it
    draws its own random numbers: such episodes are not reproducible). `position`: a FEN to start
    from. `opening`: half-moves drawn at the start, an even number. `notation`: "san" or "uci", of
    `admissible`. `view`: "fen", "spaced" (its characters apart, as in the original) or "diagram".
    `max_turns`: default 400.

    ## Example Transcript
    ```
    rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1
    > e4
    Black plays e5.

    rnbqkbnr/pppp1ppp/8/4p3/4P3/8/PPPP1PPP/RNBQKBNR w KQkq - 0 2
    ```

    ## Baselines
    100 test episodes, mean return and success: random legal moves -0.96, 0 %; expert (alpha-beta, 2
    half-moves, captures played out) 1.00, 100 %. Speed on one core, nearly all of it python-chess:
    4,900 steps/s against "random", 3,400 against "greedy".

    ## Registered Configurations
    `Chess-v0`: whole games against "greedy".

    ## References
    LMRL-Gym (arXiv 2311.18232), section on chess; rewards, illegal moves and endings are the same,
    its opponent is Stockfish with 1200 Elo. Rules of the game: python-chess (extra `chess`).

    ## Version History
    v0: first version.
    """

    instructions = (
        "You play chess as White; your opponent answers for Black. Each turn you read the position "
        "in Forsyth-Edwards notation (FEN): the ranks from the eighth to the first, White's pieces "
        "as capital letters, digits for empty squares, then who moves, castling rights, the en "
        "passant square and the counters of moves. Say one legal move in standard algebraic "
        "notation, such as e4, Nf3, exd5, O-O or e8=Q, or as squares, such as e2e4. Mate to win. "
        "An illegal move costs as much as a lost game and has to be replaced by another one; a "
        "null move (--) gives the game up."
    )
    State = State
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

    def _start(self, task: str) -> TimeStep:
        self._begin(self._opened(task) if self.opening else self.position)
        return self._look()

    def _opened(self, task: str) -> str:
        """The position after a few moves that nobody would play on purpose, but no mate."""
        import chess

        from agentgym.envs.chess.engine import random_move

        rng = task_rng(task)
        while True:
            board = chess.Board(self.position)
            while not board.is_game_over() and len(board.move_stack) < self.opening:
                board.push(random_move(board, rng))
            if not board.is_game_over():
                return board.fen()

    def _begin(self, fen: str) -> None:
        import chess

        self.state = State(fen)
        self._board = chess.Board(fen)

    def _advance(self, action: str) -> TimeStep:
        said = "".join(action.split()) if len(action) < 100 else action
        if said in NULL_MOVES:
            self._moves = {}
            return TimeStep(
                text="You gave up.",
                terminated=True,
                valid=False,
            )
        move = self._moves.get(said) or self._legal(said)
        if move is None:
            return self._invalid(f"{action[:40]!r} is no legal move here.")
        self._push(move)
        if self._board.is_game_over():
            return self._look()
        answer = self._answer()
        name = self._board.san(answer)
        self._push(answer)
        return self._look(feedback=f"Black plays {name}.")

    def _legal(self, said: str) -> chess.Move | None:
        """Returns the legal move that is meant, if one is."""
        if not 2 <= len(said) <= 10:
            return None
        for parse in (self._board.parse_san, self._board.parse_uci):
            try:
                return parse(said) or None  # a null move is false
            except ValueError:
                continue
        return None

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
        """Returns the move of an alpha-beta search; with a lone queen or rook the shortest mate."""
        from agentgym.envs.chess.engine import make_player
        from agentgym.envs.chess.solver import solved_move

        board = self._board
        if not self._moves:
            return None
        # Asking the expert must not change what the opponent draws.
        rng = np.random.default_rng(len(self.state.moves))
        move = solved_move(board) or make_player("alpha-beta", 2)(board, rng)
        return board.uci(move) if self.notation == "uci" else board.san(move)

    def _restored(self) -> None:
        """Plays the moves of the snapshot again, so that repetitions count."""
        import chess

        from agentgym.envs.chess.engine import named_moves

        self._board = chess.Board(self.state.start)
        for name in self.state.moves:
            self._board.push_uci(name)
        over = self._last is not None and self._last.terminated
        named = named_moves if self.notation == "san" else _squares
        self._moves = {} if over else named(self._board)

    def __getstate__(self) -> dict[str, Any]:
        # A copy starts a Stockfish of its own.
        return {name: value for name, value in self.__dict__.items() if name != "_stockfish"}

    def _picture(self) -> str:
        assert self._last is not None
        return f"{self._board}\n{self._last.observation}"

    def close(self) -> None:
        """Ends Stockfish, if it was started."""
        if "_stockfish" in self.__dict__:
            self.__dict__.pop("_stockfish").close()


def playable(fen: str, where: str = "position") -> str:
    """Returns the FEN if White can move in it; raises ValueError if not."""
    import chess

    try:
        board = chess.Board(fen)
    except ValueError as error:
        raise ValueError(f"{where} must be a FEN, got {fen!r:.100}: {error}") from error
    if not board.is_valid() or not board.turn or board.is_game_over():
        raise ValueError(f"{where} must be legal, not over and White's to move, got {fen!r}.")
    return fen


def _squares(board: chess.Board) -> dict[str, chess.Move]:
    return {move.uci(): move for move in board.legal_moves}


def _found(engine: str | None) -> str:
    program = shutil.which(engine or "stockfish")
    if program is None:
        raise ConfigError(
            f"The opponent 'stockfish' needs the program {engine or 'stockfish'!r}, which was not "
            "found. Install it (Debian: apt install stockfish) or give its path as `engine`."
        )
    return program
