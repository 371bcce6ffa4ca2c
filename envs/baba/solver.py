"""Solves boards: makes and breaks the rules of a plan one after the other, then walks to a win."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from heapq import heappop, heappush
from itertools import count

from agentgym.envs.baba.board import Board, Rule, move
from agentgym.envs.grid.moves import DIRECTIONS, Square

Goal = tuple[str, Rule]
"""A step of a plan: "make" or "break", and a rule."""
MOST_BOARDS = 2000
"""Boards that a search for one step of a plan visits at most."""


@lru_cache(maxsize=4096)
def solution(board: Board, plan: tuple[Goal, ...]) -> tuple[str, ...] | None:
    """Returns moves that win by a plan, or None if none are found.

    Each step of the plan takes few pushes, in which the block next to the pusher has a word of the
    rule. Boards with several objects that are you are not solved.
    """
    moves: list[str] = []
    for goal in plan:
        reached = _push(board, goal)
        if reached is None:
            return None
        more, board = reached
        moves += more
    if board.won:
        return tuple(moves)
    ways = _ways(board)
    for square in board.squares("win"):
        if square in ways:
            return (*moves, *_way(ways, square))
    return None


def _push(board: Board, goal: Goal) -> tuple[list[str], Board] | None:
    """Returns the moves to a board on which a rule is made or broken, found by A* over pushes."""
    verb, rule = goal
    pushed = {rule[0]} if verb == "make" else {rule[0], "is", rule[1]}
    order = count()
    queue: list[tuple[int, int, int, list[str], Board]] = [(0, next(order), 0, [], board)]
    seen = {board}
    while queue and len(seen) < MOST_BOARDS:
        _, _, pushes, moves, board = heappop(queue)
        if (rule in board.rules) == (verb == "make"):
            return moves, board
        for more, following in _pushes(board, pushed):
            if following not in seen:
                seen.add(following)
                cost = pushes + 1 + (_distance(following, rule) if verb == "make" else 0)
                heappush(queue, (cost, next(order), pushes + 1, moves + more, following))
    return None


def _distance(board: Board, rule: Rule) -> int:
    """Returns the fewest pushes of a noun to a square at which it completes a rule."""
    noun, word = rule
    words = {square: text for text, square in board.blocks}
    places = [
        (row - down, column - right)
        for (row, column), text in words.items()
        for down, right in ((0, 1), (1, 0))
        if text == "is" and words.get((row + down, column + right)) == word
    ]
    nouns = [square for square, text in words.items() if text == noun]
    return min((abs(r - x) + abs(c - y) for r, c in places for x, y in nouns), default=0)


def _pushes(board: Board, words: set[str]) -> Iterator[tuple[list[str], Board]]:
    """Yields the moves of each possible push of a block with one of the words, and its board."""
    ways = _ways(board)
    names = {noun for noun, word in board.rules if word == "you"}
    for word, (row, column) in board.blocks:
        if word not in words:
            continue
        for name, (down, right) in DIRECTIONS.items():
            behind = row - down, column - right
            if behind not in ways:
                continue
            objects = tuple((n, behind if n in names else s) for n, s in board.objects)
            following = move(replace(board, objects=objects), (down, right))
            if following.blocks != board.blocks and not following.lost:
                yield [*_way(ways, behind), name], following


def _ways(board: Board) -> dict[Square, tuple[Square, str] | None]:
    """Returns the squares that can be reached without a push, each with the move to it.

    It is empty unless exactly one object is you.
    """
    you = board.squares("you")
    if len(you) != 1:
        return {}
    closed = {square for _, square in board.blocks} | set(board.squares("stop"))
    ways: dict[Square, tuple[Square, str] | None] = {you[0]: None}
    queue = deque(you)
    while queue:
        square = queue.popleft()
        for name, (down, right) in DIRECTIONS.items():
            to = square[0] + down, square[1] + right
            if to not in ways and to not in closed and board.inside(to):
                ways[to] = square, name
                queue.append(to)
    return ways


def _way(ways: dict[Square, tuple[Square, str] | None], square: Square) -> list[str]:
    """Returns the moves to a square."""
    moves: list[str] = []
    while (last := ways[square]) is not None:
        square, name = last
        moves.append(name)
    return moves[::-1]
