"""TicTacToe: the rules, perfect play, openings."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

import agentgym
from agentgym.envs.board import tictactoe
from agentgym.envs.board.tictactoe import CELLS, TASKS, TicTacToe
from agentgym.errors import ConfigError


def positions(board: str, seen: set[str]) -> set[str]:
    if board not in seen:
        seen.add(board)
        if not tictactoe.winner(board):
            for _, child in tictactoe.children(board):
                positions(child, seen)
    return seen


def test_all_reachable_positions():
    seen = positions("." * 9, set())
    assert len(seen) == 5478  # known numbers of the game
    ends = [board for board in seen if tictactoe.winner(board) or "." not in board]
    assert len(ends) == 958
    wins = [tictactoe.winner(board) for board in ends]
    assert (wins.count("X"), wins.count("O"), wins.count(None)) == (626, 316, 16)
    assert len({tictactoe.symmetric(board) for board in seen}) == 765


def test_values_of_known_positions():
    assert tictactoe.value("." * 9) == 0
    assert tictactoe.value("XO.......") > 0  # a side beside the corner loses
    assert tictactoe.value("X...O....") == 0
    assert tictactoe.best_cells("X........") == (4,)
    assert tictactoe.best_cells("XX.OO....") == (2,)  # the immediate win, not only any win
    assert tictactoe.greedy_cells("XX.OO....") == (2,)
    assert tictactoe.greedy_cells("XX..O....") == (2,)
    assert tictactoe.greedy_cells("X...O....") == (1, 2, 3, 5, 6, 7, 8)


@pytest.mark.parametrize("level", TicTacToe.levels)
def test_perfect_play_never_loses_from_the_empty_board(level):
    rng = np.random.Generator(np.random.PCG64(1))
    game = TicTacToe()
    results = []
    for episode in range(60):
        me = f"player_{episode % 2}"
        game.begin("opening/")
        while game.acting:
            (agent,) = game.acting
            game.play({agent: game.script("optimal" if agent == me else level, agent, rng)})
        results.append(game.reward(me))
    assert min(results) >= 0
    assert (max(results) == 0) == (level == "optimal")


def test_openings_cover_everything_and_are_split_by_symmetry():
    names = [*TASKS.train, *TASKS.test]
    assert len(names) == len(set(names)) == 1 + 9 + 72
    assert "opening/" in TASKS.train and len(TASKS.test) >= 16
    classes = [
        {
            tictactoe.symmetric(tictactoe.after(tuple(name.removeprefix("opening/").split("-"))))
            for name in split
            if name != "opening/"
        }
        for split in (TASKS.train, TASKS.test)
    ]
    assert not classes[0] & classes[1]
    game = TicTacToe()
    game.begin("opening/5-1")
    assert game.state.board == "O...X...." and game.acting == ("player_0",)
    game.begin("opening/9")
    assert game.acting == ("player_1",)


def test_three_times_nonsense_loses():
    env = agentgym.make_parallel("TicTacToe-v0", invalid_penalty=0.1)
    env.reset(options={"task": "opening/"})
    for _ in range(2):
        _, rewards, *_ = env.step({"player_0": "10"})
        assert rewards == {"player_0": -0.1, "player_1": 0.0}
    _, rewards, terminations, _, infos = env.step({"player_0": "please"})
    assert rewards == {"player_0": -1.1, "player_1": 1.0}
    assert terminations == {"player_0": True, "player_1": True}
    assert infos["player_1"]["success"] and infos["player_1"]["valid"]


def test_a_valid_action_in_between_forgives():
    env = agentgym.make_parallel("TicTacToe-v0")
    env.reset(options={"task": "opening/"})
    for cell in ("1", "2", "3"):
        for said in ("?", "?", cell):
            env.step({env.game.acting[0]: said})
    assert env.game.state.board == "XOX......"


def test_a_seat_against_graded_opponents_gets_harder():
    means = []
    for level in TicTacToe.levels:
        env = gymnasium.make("AgentGym/TicTacToe-v0", opponents=level)
        game = env.unwrapped.game  # type: ignore[attr-defined]
        total = 0.0
        for seed in range(150):
            _, info = env.reset(seed=seed)
            rng = np.random.Generator(np.random.PCG64(seed))
            over = False
            while not over:
                action = info["admissible"][int(rng.integers(len(info["admissible"])))]
                _, reward, terminated, truncated, info = env.step(action)
                total += float(reward)
                over = terminated or truncated
        means.append(total / 150)
        assert game.zero_sum and set(game.actions) == set(CELLS)
    assert means[0] > means[1] + 0.3 and means[1] > means[2]


def test_a_board_in_a_line_has_nine_marks():
    game = TicTacToe(board="line")
    game.reset(seed=0, task="opening/5-1")
    text = "You are X. It is your turn.\nBoard: O - - - X - - - -"
    assert game.seen("player_0").observation == text
    assert "numbered 1 to 9. The board shows them in a line" in game.instructions
    with pytest.raises(ConfigError, match=r"board must be one of \['drawn', 'line'\], got 'flat'"):
        TicTacToe(board="flat")
