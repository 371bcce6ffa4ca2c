from __future__ import annotations

import copy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentgym.errors import ConfigError, DataError, MissingExtraError

chess = pytest.importorskip("chess")

from agentgym.envs.chess.endgames import ENDGAMES, ChessEndgames, draw_endgame  # noqa: E402
from agentgym.envs.chess.engine import (  # noqa: E402
    alpha_beta,
    confinement,
    evaluate,
    exchange,
    greedy_move,
    named_moves,
    search,
)
from agentgym.envs.chess.game import INITIAL, Chess, expected_score  # noqa: E402
from agentgym.envs.chess.solver import UNKNOWN, mate_distances, solved_move  # noqa: E402
from agentgym.tasks import task_rng  # noqa: E402
from agentgym.time_step import state_digest  # noqa: E402

POSITIONS = (
    INITIAL,
    "r3k2r/pPppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
    "8/k7/2Q1Q3/8/2Q1Q3/8/1p2P3/4K2R w K - 0 1",
    "8/8/8/1Pp5/8/8/k7/4K3 w - c6 0 2",
)


def play(env: Chess, *actions: str) -> Any:
    result: Any = None
    for action in actions:
        result = env.step(action)
    return result


@pytest.mark.parametrize("fen", POSITIONS)
def test_moves_are_named_as_python_chess_names_them(fen: str):
    rng = np.random.default_rng(0)
    for _ in range(4):
        board = chess.Board(fen)
        while not board.is_game_over() and len(board.move_stack) < 80:
            named = named_moves(board)
            assert named == {board.san(move): move for move in board.legal_moves}
            board.push(list(named.values())[int(rng.integers(len(named)))])


def test_a_game_that_white_wins():
    env = Chess(opponent="random", position="6k1/5ppp/8/8/8/8/8/R3K3 w Q - 0 1")
    observation, info = env.reset(seed=0)
    assert observation == "6k1/5ppp/8/8/8/8/8/R3K3 w Q - 0 1"
    assert "Ra8#" in info["admissible"] and "O-O-O" in info["admissible"]
    observation, reward, terminated, _, info = env.step("R a 8")
    assert (reward, terminated, info["success"], info["progress"]) == (1.0, True, True, 1.0)
    assert observation.endswith("You win: checkmate.")
    assert info["admissible"] == ()
    assert env.expert() is None


def test_a_game_that_white_loses():
    env = Chess(opponent="greedy")
    env.reset(seed=0)
    env.restore(env.snapshot())
    env._begin(chess.Board().fen())
    for move in ("f2f3", "e7e5"):
        env._push(chess.Move.from_uci(move))
    env._look()
    observation, reward, terminated, _, info = env.step("g4")
    assert (reward, terminated, info["success"], info["progress"]) == (-1.0, True, False, 0.0)
    assert observation.startswith("Black plays Qh4#.")


def test_draws_are_worth_nothing():
    env = Chess(opponent="random", position="7k/8/5KQ1/8/8/8/8/8 w - - 0 1")
    env.reset(seed=0)
    observation, reward, terminated, _, info = env.step("Kf7")
    assert (reward, terminated, info["success"], info["progress"]) == (0.0, True, False, 0.5)
    assert observation.endswith("Draw: stalemate.")
    env = Chess(opponent="greedy", position="8/8/8/4k3/7Q/8/8/K7 w - - 0 1")
    env.reset(seed=0)
    observation, reward, terminated, *_ = env.step("Qe4")
    assert (reward, terminated) == (0.0, True)
    assert observation.endswith("Draw: insufficient material.")


def test_an_illegal_move_costs_one_and_changes_nothing():
    env = Chess(opponent="random")
    start, _ = env.reset(seed=0)
    for action in ("e5", "Nf9", "hello", "", "e2e5", "x" * 1000):
        observation, reward, terminated, _, info = env.step(action)
        assert (reward, terminated, info["valid"]) == (-1.0, False, False)
        assert observation.endswith(start)
    assert env.state.moves == []


@pytest.mark.parametrize("action", ["--", "0000", "Z0"])
def test_a_null_move_gives_up(action: str):
    env = Chess(opponent="random")
    env.reset(seed=0)
    _, reward, terminated, _, info = env.step(action)
    assert (reward, terminated, info["valid"], info["success"]) == (-1.0, True, False, False)


@pytest.mark.parametrize("action", ["Nf3", "N f 3", "g1f3", " Nf3\n", "Ng1f3"])
def test_ways_to_say_a_move(action: str):
    env = Chess(opponent="random")
    env.reset(seed=0)
    env.step(action)
    assert env.state.moves[0] == "g1f3"


def test_five_times_the_same_position_is_a_draw_also_after_a_snapshot():
    env = Chess(opponent="alpha-beta", depth=1, position="k7/8/8/8/8/8/8/KR6 w - - 0 1")
    env.reset(seed=0)
    dance = ["b1b2", "a8a7", "b2b1", "a7a8"] * 4
    for uci in dance[:-2]:
        env._push(chess.Move.from_uci(uci))
    env._look()
    twin = Chess(opponent="alpha-beta", depth=1, position="k7/8/8/8/8/8/8/KR6 w - - 0 1")
    twin.restore(env.snapshot())
    for uci in dance[-2:]:
        twin._push(chess.Move.from_uci(uci))
    assert twin._look().terminated
    assert twin._look().text.endswith("Draw: fivefold repetition.")


def test_views():
    env = Chess(view="spaced")
    assert env.reset(seed=0)[0] == " ".join(INITIAL)
    env = Chess(view="diagram", notation="uci")
    observation, info = env.reset(seed=0)
    assert observation.splitlines()[0] == "8 r n b q k b n r"
    assert observation.splitlines()[-2:] == ["  a b c d e f g h", INITIAL]
    assert "e2e4" in info["admissible"]
    _, _, _, _, info = env.step(env.expert() or "")
    assert info["valid"]


def test_the_state_key_leaves_out_the_counters():
    env = Chess(opponent="random")
    info = env.reset(seed=0)[1]
    assert info["state_key"] == state_digest(INITIAL.rsplit(" ", 2)[0])


def test_openings_are_tasks():
    env = Chess(opening=4)
    one, other = (env.reset(seed=0, options={"task": f"train/{i}"})[0] for i in range(2))
    assert one != other
    assert one == env.reset(seed=5, options={"task": "train/0"})[0]
    assert all(chess.Board(fen).turn and len(fen.split()) == 6 for fen in (one, other))


@pytest.mark.parametrize(
    "position",
    [
        "8/8/8/8/8/8/1q6/K6k w - - 0 1",  # White has to take the queen, and the kings are left
        "6k1/8/8/8/8/8/8/K6R w - - 149 100",  # the next move is the last of 75 without a capture
    ],
)
def test_an_opening_that_always_ends_the_game_is_refused(position: str):
    with pytest.raises(ConfigError, match=r"100 of 100 random openings of 2 .*Give fewer"):
        Chess(position=position, opening=2)
    assert Chess(position=position).reset()[1]["admissible"]


def test_an_opening_that_often_ends_the_game_is_drawn_again():
    # White's king takes a rook or steps aside. Without the rook, only the kings are left.
    env = Chess(position="8/8/8/8/8/8/8/Kr5k w - - 0 1", opening=2)
    for number in range(5):
        _, info = env.reset(options={"task": f"train/{number}"})
        assert info["admissible"]


def test_the_greedy_player_mates_and_takes_what_is_loose():
    rng = np.random.default_rng(0)
    board = chess.Board("6k1/5ppp/8/8/8/q7/8/R3K3 w Q - 0 1")
    assert board.san(greedy_move(board, rng)) == "Rxa3"
    board = chess.Board("6k1/5ppp/8/q7/8/8/7P/R3K3 w - - 0 1")
    assert board.san(greedy_move(board, rng)) == "Rxa5"
    board = chess.Board("6k1/5ppp/8/8/8/8/6r1/R4K2 w - - 0 1")
    assert board.san(greedy_move(board, rng)) == "Ra8#"
    board = chess.Board("4k3/3p4/4p3/8/8/8/4R3/4K3 w - - 0 1")
    assert exchange(board, chess.Move.from_uci("e2e6")) == 100 - 500


@pytest.mark.parametrize(
    ("fen", "best"),
    [
        ("6k1/5ppp/8/8/8/8/8/R3K3 w - - 0 1", {"Ra8#"}),
        ("k7/8/1K6/8/8/8/8/7R w - - 0 1", {"Rh8#"}),
        ("7k/R7/8/8/8/8/1R6/K7 w - - 0 1", {"Rb8#"}),
        ("4k3/8/8/3q4/8/2N5/8/4K3 w - - 0 1", {"Nxd5"}),
        # The pawn is guarded: the queen must not take it.
        ("4k3/3p4/4p3/8/8/8/4Q3/4K3 b - - 0 1", {"Kd8", "Kf7", "Kf8", "Ke7", "d6", "d5", "e5"}),
    ],
)
def test_alpha_beta_finds(fen: str, best: set[str]):
    board = chess.Board(fen)
    for seed in range(3):
        for depth in (1, 2, 3):
            move = alpha_beta(depth)(board, np.random.default_rng(seed))
            assert board.san(move) in best
    assert board.fen() == fen


def minimax(board: Any, depth: int) -> int:
    """Searches without pruning."""
    quiet = depth <= 0 and not board.is_check()
    if quiet and depth <= -4:
        return evaluate(board)
    best = evaluate(board) if quiet else -(10**9)
    moves = list(board.legal_moves)
    if not quiet:
        if not moves:
            return -100_000 - depth if board.is_check() else 0
        if board.is_insufficient_material():
            return 0
    for move in moves:
        if quiet and (not board.is_capture(move) or exchange(board, move) < 0):
            continue
        board.push(move)
        best = max(best, -minimax(board, depth - 1))
        board.pop()
    return best


def test_alpha_beta_is_minimax():
    rng = np.random.default_rng(1)
    for fen in ("4k3/3p4/4p3/8/2r5/1B6/4Q3/4K3 w - - 0 1", POSITIONS[3]):
        board = chess.Board(fen)
        for _ in range(4):
            for depth in (1, 2):
                assert search(board, depth, -(10**6), 10**6) == minimax(board, depth)
            moves = list(board.legal_moves)
            board.push(moves[int(rng.integers(len(moves)))])
            if board.is_game_over():
                break


def test_evaluation():
    assert evaluate(chess.Board()) == 0
    board = chess.Board("4k3/8/8/8/8/8/8/Q3K3 w - - 0 1")
    assert evaluate(board) > 800
    board.turn = chess.BLACK
    assert evaluate(board) < -800
    corner, middle = (chess.Board(f"{fen} w - - 0 1") for fen in ("k7/2K5/8/8/8/8/8/Q7",) * 2)
    middle.set_fen("8/8/8/3k4/8/8/2K5/Q7 w - - 0 1")
    assert 0 <= confinement(middle, False) < confinement(corner, False) <= 1
    assert expected_score(0) == 0.5
    assert expected_score(400) == pytest.approx(10 / 11)


def test_how_far_mates_are():
    for piece, longest, count in (("Q", 19, 144_508), ("R", 31, 175_168)):
        white, black = mate_distances(piece)
        assert white[white < UNKNOWN].max() == longest
        assert (white < UNKNOWN).sum() == count
        assert black[black < UNKNOWN].max() == longest + 1
    assert mate_distances("Q")[1][chess.C6, chess.B7, chess.A8] == 0
    assert mate_distances("R")[0][chess.B6, chess.H1, chess.A8] == 1


@pytest.mark.parametrize("name", ["KQK", "KRK"])
def test_drawn_positions_are_won_and_the_shortest_mate_is_played(name: str):
    env = ChessEndgames(pieces=[name])
    table = mate_distances(name[1])[0]
    for number in range(30):
        env.reset(seed=number, options={"task": f"test/{number}"})
        board = env._board
        squares = board.king(True), chess.lsb(board.queens | board.rooks), board.king(False)
        left = int(table[squares])
        assert left < UNKNOWN
        turns, done, success = 0, False, False
        while not done:
            _, _, done, truncated, info = env.step(env.expert() or "")
            turns, success = turns + 1, info["success"]
            assert not truncated
        assert success and turns <= (left + 1) // 2


@pytest.mark.parametrize("name", ["KQQK", "KRRK", "KQRK"])
def test_the_expert_wins_with_two_pieces(name: str):
    env = ChessEndgames(pieces=[name], max_turns=30)
    for seed in range(5):
        env.reset(seed=seed)
        info: dict[str, Any] = {}
        ended = False
        while not ended:
            _, _, done, truncated, info = env.step(env.expert() or "")
            ended = done or truncated
        assert info["success"]


def test_drawn_endgames():
    for i in range(50):
        board = chess.Board(draw_endgame(ENDGAMES, task_rng(f"test/{i}")))
        assert board.is_valid() and board.turn and not board.is_check()
        assert not board.is_game_over()
        assert board.occupied_co[False].bit_count() == 1
    assert solved_move(chess.Board()) is None


def test_progress_rises_as_the_king_is_confined():
    env = ChessEndgames(pieces=["KRK"])
    env.reset(seed=0)
    values = []
    ended = False
    while not ended:
        _, _, ended, _, info = env.step(env.expert() or "")
        values.append(info["progress"])
    assert values[-1] == 1.0
    assert max(values[:-1]) <= 0.9
    assert values[-2] > values[0]


def test_positions_of_a_file(tmp_path: Path):
    path = tmp_path / "positions.txt"
    fens = ["8/8/8/4k3/8/8/3Q4/4K3 w - - 0 1", "8/8/8/4k3/8/8/3R4/4K3 w - - 0 1"]
    path.write_text("\n\n".join(fens))
    env = ChessEndgames(positions=str(path))
    assert (env.tasks.train, env.tasks.test) == (("line/1",), ("line/0",))
    assert env.reset(seed=0)[0] == fens[1]
    path.write_text(fens[0])
    with pytest.raises(DataError, match="at least 2"):
        ChessEndgames(positions=str(path))
    path.write_text("8/8 w\n")
    with pytest.raises(ValueError, match="line 1 of"):
        ChessEndgames(positions=str(path))
    with pytest.raises(DataError, match="cannot be read"):
        ChessEndgames(positions=str(tmp_path / "none"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"opponent": "god"}, "opponent"),
        ({"notation": "lan"}, "notation"),
        ({"view": "3d"}, "view"),
        ({"depth": 0}, "depth"),
        ({"opening": 3}, "opening"),
        ({"nodes": 0}, "nodes"),
        ({"position": "nonsense"}, "FEN"),
        ({"position": "8/8/8/4k3/8/8/3Q4/4K3 b - - 0 1"}, "White to move"),
        ({"position": "7k/5KQ1/8/8/8/8/8/8 w - - 0 1"}, "legal"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        Chess(**arguments)


def test_bad_endgames():
    with pytest.raises(ValueError, match="KPK"):
        ChessEndgames(pieces=["KPK"])
    with pytest.raises(ValueError, match="at least one"):
        ChessEndgames(pieces=[])
    with pytest.raises(ValueError, match="use Chess"):
        ChessEndgames(opening=2)


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "chess", None)
    with pytest.raises(MissingExtraError, match=r"agentgym-suite\[chess\]"):
        Chess()


def test_a_missing_program_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ConfigError, match="apt install stockfish"):
        Chess(opponent="stockfish")


PROGRAM = f"""#!{sys.executable}
import sys
import chess
board = chess.Board()
for line in sys.stdin:
    words = line.split()
    if words[:1] == ["uci"]:
        print("id name Test\\noption name UCI_LimitStrength type check default false")
        print("option name UCI_Elo type spin default 1350 min 1320 max 3190\\nuciok", flush=True)
    elif words[:1] == ["isready"]:
        print("readyok", flush=True)
    elif words[:1] == ["position"]:
        board = chess.Board() if words[1] == "startpos" else chess.Board(" ".join(words[2:8]))
        for move in words[words.index("moves") + 1:] if "moves" in words else []:
            board.push_uci(move)
    elif words[:1] == ["go"]:
        print("bestmove", min(move.uci() for move in board.legal_moves), flush=True)
    elif words[:1] == ["quit"]:
        break
"""


def test_a_program_plays(tmp_path: Path):
    path = tmp_path / "program"
    path.write_text(PROGRAM)
    path.chmod(0o755)
    env = Chess(opponent="stockfish", engine=str(path), elo=1400, nodes=5)
    env.reset(seed=0)
    play(env, "e4")
    assert env.state.moves == ["e2e4", "a7a5"]
    twin = copy.deepcopy(env)
    for each in (env, twin):
        play(each, "d4")
        assert each.state.moves[2:] == ["d2d4", "a5a4"]
        each.close()


def test_instructions_name_the_view_and_the_penalty():
    text = Chess(view="spaced", invalid_penalty=0.5).instructions
    assert "with a space between characters" in text and "illegal move costs 0.5" in text
    assert "diagram" in Chess(view="diagram").instructions
    for env in (Chess(), ChessEndgames()):
        assert "diagram" not in env.instructions and "{" not in env.instructions
