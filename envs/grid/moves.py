"""Directions on a grid and the parsing of moves."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable

Square = tuple[int, int]

DIRECTIONS: dict[str, Square] = {
    "left": (0, -1),
    "down": (1, 0),
    "right": (0, 1),
    "up": (-1, 0),
}
"""(row, column) steps, in the order of Gymnasium's FrozenLake."""


def read_moves(action: str, limit: int) -> list[str] | str:
    """Returns the directions of an action (joined by `||`), or an error message."""
    words = [word.strip().lower() for word in action[:1000].split("||")]
    known = ", ".join(DIRECTIONS)
    for word in words:
        if word not in DIRECTIONS:
            return f"Invalid move {word[:40]!r}. Valid moves: {known}."
    if len(words) > limit:
        return f"At most {limit} move{'s' * (limit > 1)} per turn, got {len(words)}."
    return words


def shortest_path(
    start: Hashable,
    neighbours: Callable[[Hashable], Iterable[tuple[str, Hashable]]],
    done: Callable[[Hashable], bool],
    limit: int = 200_000,
) -> list[str] | None:
    """Returns the labels of a shortest path by breadth-first search, or None if none exists.

    Args:
        start: initial state.
        neighbours: returns the (label, next state) pairs of a state.
        done: whether a state is a goal.
        limit: maximum number of visited states.
    """
    came: dict[Hashable, tuple[Hashable, str] | None] = {start: None}
    queue = deque([start])
    while queue and len(came) < limit:
        state = queue.popleft()
        if done(state):
            labels = []
            while (step := came[state]) is not None:
                state, label = step
                labels.append(label)
            return labels[::-1]
        for label, following in neighbours(state):
            if following not in came:
                came[following] = state, label
                queue.append(following)
    return None
