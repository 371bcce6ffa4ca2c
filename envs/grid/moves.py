"""Directions on a grid, and how an agent says them."""

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
"""(row, column) steps; the order is Gymnasium's FrozenLake's."""


def read_moves(action: str, limit: int) -> list[str] | str:
    """Returns the directions an action names, joined by `||`; or what is wrong with it."""
    words = [word.strip().lower() for word in action[:1000].split("||")]
    known = ", ".join(DIRECTIONS)
    for word in words:
        if word not in DIRECTIONS:
            return f"Say one of {known}, not {word[:40]!r}."
    if len(words) > limit:
        return f"At most {limit} move{'s' * (limit > 1)} a turn, got {len(words)}."
    return words


def shortest_path(
    start: Hashable,
    neighbours: Callable[[Hashable], Iterable[tuple[str, Hashable]]],
    done: Callable[[Hashable], bool],
    limit: int = 200_000,
) -> list[str] | None:
    """Returns the labels of a shortest path by breadth-first search; None if there is none.

    Args:
        start: where it begins.
        neighbours: (label, next state) of a state.
        done: whether a state is a goal.
        limit: states looked at before giving up.
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
