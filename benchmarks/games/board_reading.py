"""How many positions a small decoder needs to learn tic-tac-toe, from two drawings of the board.

A teacher plays against random moves, and itself makes a random move in one of five turns. A new
`nano` decoder clones the teacher's move in each of these positions, in order. The teacher never
gives away a win or a draw, and among such moves it prefers the best one against random play, so
that a position has one move. Losses are exact: the probability that the decoder's most probable
moves lose to uniformly random ones, from the empty board. Finished drawings are kept.

    python benchmarks/games/board_reading.py
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro

from agentgym.envs.board.tictactoe import (
    CELLS,
    DRAWINGS,
    MARKS,
    children,
    empty,
    put,
    to_move,
    value,
    winner,
)
from agentgym.trainers.policy.tiny import tiny_model
from benchmarks.shared.result_files import RESULTS, measured, settings_of, versions

START = "." * 9
SLIP = 0.2
"""Share of the teacher's turns in which it makes a random move."""
CHECKS = 5
"""Measurements of each run."""


@dataclass
class Settings:
    """Settings of the benchmark."""

    samples: int = 60_000
    """Positions that are cloned."""
    batch: int = 64
    """Positions per step."""
    lr: float = 3e-3
    """First learning rate, which decays to 0 on a cosine."""
    out: Path = RESULTS / "board_reading.json"
    """Results."""


def average(
    board: str,
    mark: str,
    move: Callable[[str], int],
    worth: dict[str, float],
    replies: Callable[[str], Sequence[int]] = empty,
) -> float:
    """Returns the mean worth of the results of a player's moves.

    Args:
        board: the position.
        mark: the mark of the player.
        move: the player's move in a position.
        worth: the worth of a result, by the mark that wins, "" for a draw.
        replies: the cells that the opponent chooses from at random. By default, all empty ones.
    """

    @cache
    def of(board: str) -> float:
        won = winner(board)
        if won or not empty(board):
            return worth[won or ""]
        if to_move(board) == mark:
            return of(put(board, move(board), mark))
        return float(np.mean([of(put(board, c, to_move(board))) for c in replies(board)]))

    return of(board)


def losses(
    mark: str, move: Callable[[str], int], replies: Callable[[str], Sequence[int]] = empty
) -> float:
    """Returns the share of games that a player's moves lose from the empty board."""
    worth = {mark: 0.0, MARKS[mark == "X"]: 1.0, "": 0.0}
    return average(START, mark, move, worth, replies)


@cache
def against_random(board: str, mark: str) -> float:
    """Returns the mean return of the teacher against random moves."""
    worth = {mark: 1.0, MARKS[mark == "X"]: -1.0, "": 0.0}
    return average(board, mark, taught, worth)


def keeping(board: str) -> list[int]:
    """Returns the moves that do not give away a win or a draw."""
    return [c for c, child in children(board) if np.sign(-value(child)) == np.sign(value(board))]


@cache
def taught(board: str) -> int:
    """Returns the teacher's move."""
    mark = to_move(board)

    def rank(cell: int) -> tuple[bool, float]:
        child = put(board, cell, mark)
        return winner(child) == mark, against_random(child, mark)

    return max(keeping(board), key=rank)


def positions(rng: np.random.Generator) -> Iterator[str]:
    """Yields the positions in which the teacher is to move."""
    while True:
        mark, board = MARKS[rng.integers(2)], START
        while not winner(board) and empty(board):
            mine = to_move(board) == mark
            if mine:
                yield board
            teaches = mine and rng.random() < 1 - SLIP
            cell = taught(board) if teaches else rng.choice(empty(board))
            board = put(board, int(cell), to_move(board))


def reachable() -> list[str]:
    """Returns all positions in which a move is to be made."""
    found, left = {START}, [START]
    while left:
        board = left.pop()
        following = {child for _, child in children(board)} - found
        left += [child for child in following if not winner(child) and empty(child)]
        found |= following
    return sorted(board for board in found if not winner(board) and empty(board))


def prompt(board: str, drawing: str) -> str:
    """Returns the prompt of a position."""
    return f"You are {to_move(board)}. It is your turn.\n{DRAWINGS[drawing](board)}\n> "


class Reader:
    """A new decoder that reads positions.

    Args:
        boards: the positions.
        seen: positions whose prompts train its tokenizer.
        drawing: a key of `DRAWINGS`.
    """

    def __init__(self, boards: list[str], seen: list[str], drawing: str):
        played = [prompt(board, drawing) + CELLS[i % 9] for i, board in enumerate(seen)]
        self.model, tokenizer = tiny_model(played, size="nano")
        texts = [prompt(board, drawing) for board in boards]
        rows = [tokenizer.encode(text) for text in texts]
        self.tokens = max(map(len, rows))
        padded = [[tokenizer.pad_token_id] * (self.tokens - len(row)) + row for row in rows]
        self._ids = torch.tensor(padded)
        self._mask = torch.tensor([[0] * (self.tokens - len(r)) + [1] * len(r) for r in rows])
        self._cells = torch.tensor([tokenizer.encode(cell)[0] for cell in CELLS])
        taken = [[0.0 if mark == "." else -1e9 for mark in board] for board in boards]
        self._taken = torch.tensor(taken)

    def logits(self, which: torch.Tensor) -> torch.Tensor:
        """Returns the logits of the cells [n, 9] in positions, by their number."""
        mask = self._mask[which]
        places = (mask.cumsum(1) - 1).clamp(min=0)
        hidden = self.model.model(self._ids[which], attention_mask=mask, position_ids=places)
        last = hidden.last_hidden_state[:, -1]
        return last @ self.model.lm_head.weight[self._cells].T + self._taken[which]

    @torch.no_grad()
    def moves(self) -> list[int]:
        """Returns the most probable move in every position."""
        parts = torch.arange(len(self._ids)).split(512)
        return torch.cat([self.logits(part).argmax(1) for part in parts]).tolist()


def run(drawing: str, settings: Settings) -> dict[str, Any]:
    """Returns the tokens of a prompt, and the measures after each fifth of the samples."""
    seen = list(islice(positions(np.random.default_rng(0)), settings.samples))
    boards = reachable()
    number = {board: i for i, board in enumerate(boards)}
    targets = torch.tensor([taught(board) for board in boards])
    reader = Reader(boards, sorted({*seen, START}), drawing)
    optimizer = torch.optim.AdamW(reader.model.train().parameters(), settings.lr, weight_decay=0.0)
    order = torch.tensor([number[board] for board in seen])
    steps, rows = settings.samples // settings.batch, []
    for step in range(steps):
        warm, done = min(1.0, (step + 1) / 30), step / steps
        optimizer.param_groups[0]["lr"] = settings.lr * warm * (1 + math.cos(math.pi * done)) / 2
        which = order[step * settings.batch : (step + 1) * settings.batch]
        loss = torch.nn.functional.cross_entropy(reader.logits(which), targets[which])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(reader.model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if (step + 1) % max(1, steps // CHECKS) == 0:
            rows.append({"samples": (step + 1) * settings.batch} | measures(reader, boards))
            print(drawing, rows[-1], flush=True)
    return {"tokens": reader.tokens, "positions": len({*seen}), "rows": rows}


def measures(reader: Reader, boards: list[str]) -> dict[str, float]:
    """Returns the exact shares of games that the reader loses against random moves, by mark."""
    moves = dict(zip(boards, reader.moves(), strict=True))
    return {f"losses as {mark}": losses(mark, moves.__getitem__) for mark in MARKS}


def main(settings: Settings) -> None:
    """Measures both drawings, and writes the results."""
    torch.set_num_threads(1)
    about = {"versions": versions("torch"), "settings": settings_of(settings)}
    runs = {drawing: partial(run, drawing, settings) for drawing in DRAWINGS}
    list(measured(settings.out, about, "drawings", runs))


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
