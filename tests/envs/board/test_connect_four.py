"""ConnectFour: lines, search against plain minimax, openings."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import agentgym
from agentgym.envs.board import connect_four as four
from agentgym.envs.board.connect_four import ConnectFour, Grid, State

ID = "ConnectFour-v0"
DRAW = "1113233214423442"  # fills a board of 4 by 4 without four in a row


def played(grid: Grid, moves: str) -> State:
    state = State([])
    for column in moves:
        four.drop(grid, state, int(column) - 1)
    return state


def lines_by_hand(grid: Grid, stones: int) -> bool:
    """Returns whether there are four in a row, by checking every cell."""

    def taken(row: int, column: int) -> bool:
        inside = 0 <= row < grid.rows and 0 <= column < grid.columns
        return inside and bool(stones >> column * (grid.rows + 1) + row & 1)

    return any(
        all(taken(row + i * down, column + i * right) for i in range(4))
        for row in range(grid.rows)
        for column in range(grid.columns)
        for down, right in ((0, 1), (1, 0), (1, 1), (-1, 1))
    )


@pytest.mark.parametrize("grid", [Grid(), Grid(4, 4), Grid(5, 9), Grid(9, 4)])
def test_lines_and_completing_cells_on_random_boards(grid):
    rng = np.random.default_rng(0)
    seen = set()
    for _ in range(100):
        bits = [i for i in range(grid.columns * (grid.rows + 1)) if grid.full >> i & 1]
        stones = sum(1 << bit for bit in bits if rng.random() < 0.35)
        won = lines_by_hand(grid, stones)
        seen.add(won)
        assert four.has_four(grid, stones) == won
        if not won:
            expected = sum(1 << b for b in bits if lines_by_hand(grid, stones | 1 << b))
            assert four.completing(grid, stones) & ~stones == expected
    assert seen == {True, False}


def minimax(grid: Grid, mine: int, theirs: int) -> int:
    """Returns the value of a position, 1, 0 or -1, by full search without pruning."""

    @cache
    def value(mine: int, theirs: int) -> int:
        best = -2
        for column in four.column_masks(grid):
            cell = four.drops(grid, mine | theirs) & column
            if cell:
                won = four.has_four(grid, mine | cell)
                best = max(best, 1 if won else -value(theirs, mine | cell))
        return 0 if best == -2 else best

    return value(mine, theirs)


@pytest.mark.slow
def test_search_to_the_end_is_minimax():
    grid, rng, values = Grid(4, 5), np.random.default_rng(1), set()
    for _ in range(60):
        state = State([])
        while len(state.moves) < 11:
            free = [c for c in range(5) if state.moves.count(c) < 4]
            four.drop(grid, state, int(rng.choice(free)))
            if four.has_four(grid, state.stones[(len(state.moves) + 1) % 2]):
                break
        if len(state.moves) < 11 or any(four.has_four(grid, stones) for stones in state.stones):
            continue
        theirs, mine = state.stones  # after an odd number of moves O is to move
        found = four.search(grid, mine, theirs, 20, -2 * four.WIN, 2 * four.WIN)
        expected = minimax(grid, mine, theirs)
        assert (found > 0) - (found < 0) == expected
        assert found == 0 or abs(found) >= four.WIN
        values.add(expected)
        best = four.best_columns(grid, mine, theirs, 20)
        good = []
        for column, mask in enumerate(four.column_masks(grid)):
            cell = four.drops(grid, mine | theirs) & mask
            if cell:
                won = four.has_four(grid, mine | cell)
                if (1 if won else -minimax(grid, theirs, mine | cell)) == expected:
                    good.append(column)
        assert set(best) <= set(good) and best
    assert values == {-1, 0, 1}


@pytest.mark.slow
def test_small_board_is_a_draw():
    # Known value of the game on 4 x 4.
    assert minimax(Grid(4, 4), 0, 0) == 0


def test_sees_the_double_threat():
    grid = Grid()
    state = played(grid, "4455")  # X: 4, 5; O on top of them
    columns = four.best_columns(grid, state.stones[0], state.stones[1], 4)
    assert columns == [2, 5]  # three in a row with both ends free
    state = played(grid, "44553")
    assert four.search(grid, state.stones[1], state.stones[0], 1, -2000, 2000) < -four.WIN
    assert four.greedy_columns(grid, state.stones[1], state.stones[0]) == [1, 5]


@pytest.mark.slow
def test_looking_further_wins_more():
    results = []
    for depth in (1, 4):
        game = ConnectFour(depth=depth)
        rng = np.random.default_rng(2)
        total = 0.0
        for episode in range(24):
            me = f"player_{episode % 2}"
            game.begin(game.tasks.test[episode])
            while game.acting:
                (agent,) = game.acting
                level = "alphabeta" if agent == me else "greedy"
                game.play({agent: game.script(level, agent, rng)})
            total += game.reward(me)
        results.append(total / 24)
    assert results[1] > 0.6 and results[1] > results[0]


def test_openings_are_split_by_position_and_mirror():
    game = ConnectFour()
    names = [*game.tasks.train, *game.tasks.test]
    assert len(names) == len(set(names)) == 1 + 7 + 49 + 343
    seen: tuple[set, set] = (set(), set())
    for test, split in enumerate((game.tasks.train, game.tasks.test)):
        for name in split:
            moves = name.removeprefix("opening/").replace("-", "")
            mirrored = "".join(str(8 - int(move)) for move in moves)
            for sequence in (moves, mirrored):
                seen[test].add(played(Grid(), sequence).stones)
    assert not seen[0] & seen[1]
    assert "opening/" in game.tasks.train and len(game.tasks.test) > 60
    game.begin("opening/4-4-3")
    assert game.state.moves == [3, 3, 2] and game.acting == ("player_1",)
    assert game.picture().splitlines()[-2:] == [". . . O . . .", ". . X X . . ."]


def test_a_full_column_is_refused_and_nonsense_loses():
    env = agentgym.make_parallel(ID, invalid_penalty=0.5)
    env.reset(options={"task": "opening/"})
    for _ in range(6):
        env.step({env.game.acting[0]: "1"})
    _, rewards, _, _, infos = env.step({"player_0": "1"})
    assert rewards["player_0"] == -0.5 and not infos["player_0"]["valid"]
    assert infos["player_0"]["admissible"] == tuple("234567")
    env.step({"player_0": "0"})
    _, rewards, terminations, _, infos = env.step({"player_0": "8"})
    assert rewards == {"player_0": -1.5, "player_1": 1.0} and all(terminations.values())
    assert infos["player_1"]["success"] and "X resigned." in env.game.steps["player_1"].text


def test_a_board_is_the_same_state_however_it_came_about():
    keys, texts = set(), set()
    for moves in ("123", "321"):
        game = ConnectFour()
        game.begin("opening/" + "-".join(moves))
        keys.add(game.info("player_1")["state_key"])
        texts.add(game.steps["player_1"].text)
    assert len(keys) == 1 and len(texts) == 2


def test_draw_on_a_full_board():
    game = ConnectFour(rows=4, columns=4)
    game.begin("opening/")
    for column in DRAW:
        game.play({game.acting[0]: column})
    assert not game.acting and game.reward("player_0") == 0
    assert game.steps["player_0"].progress == 0.5
    assert "draw" in game.steps["player_1"].text


@pytest.mark.parametrize("wrong", [{"rows": 3}, {"columns": 10}, {"depth": 0}, {"depth": 13}])
def test_wrong_arguments(wrong):
    with pytest.raises(ValueError):
        ConnectFour(**wrong)
