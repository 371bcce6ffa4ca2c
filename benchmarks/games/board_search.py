"""How well Monte-Carlo tree search plays tic-tac-toe, in all positions in which a move is made.

A search is the teacher of expert iteration (`multiagent.py`), so its errors are those of the best
policy that imitates it. An error is a move that gives away a win or a draw. Losses are exact: the
share of games that the moves lose from the empty board, to uniformly random moves or to perfect
play, which chooses at random among its best moves. Finished budgets are kept.

    python benchmarks/games/board_search.py
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tyro

from agentgym.envs.board.tictactoe import CELLS, MARKS, State, TicTacToe, best_cells, empty
from agentgym.multiagent.search import GameSearch
from agentgym.multiagent.seats import seat_view
from benchmarks.games.board_reading import keeping, losses, reachable
from benchmarks.shared.result_files import RESULTS, measured, versions


@dataclass
class Settings:
    """Settings of the benchmark."""

    budgets: tuple[int, ...] = (50, 200, 800)
    """Simulated episodes per search."""
    out: Path = RESULTS / "board_search.json"
    """Results."""


def searched(boards: list[str], budget: int) -> dict[str, int]:
    """Returns the move of a search in each position."""
    search, game = GameSearch(budget=budget, per_state=True), TicTacToe()
    rng, found = np.random.default_rng(0), {}
    for board in boards:
        game.begin("opening/", State(board))
        [action] = search.act([seat_view(game, game.acting[0], rng)])
        found[board] = CELLS.index(action)
    return found


def measures(moves: dict[str, int]) -> dict[str, float]:
    """Returns the share of positions with an error, and of lost games by opponent and mark."""
    errors = [move not in keeping(board) for board, move in moves.items()]
    found = {"errors": float(np.mean(errors))}
    for name, replies in (("random", empty), ("perfect", best_cells)):
        for mark in MARKS:
            found[f"losses against {name} as {mark}"] = losses(mark, moves.__getitem__, replies)
    return found


def main(settings: Settings) -> None:
    """Measures all budgets, and writes the results."""
    boards = reachable()
    about = {"versions": versions("numpy"), "positions": len(boards)}
    parts = {str(n): lambda n=n: measures(searched(boards, n)) for n in settings.budgets}
    for budget, found in measured(settings.out, about, "budgets", parts):
        print(budget, found, flush=True)


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
