"""The communication graph of a team."""

from __future__ import annotations

from functools import lru_cache

from agentgym.tasks import task_rng


@lru_cache(maxsize=1024)
def drawn_edges(task: str, key: str, roles: int, share: float) -> tuple[tuple[bool, ...], ...]:
    """Returns whether each role [reader] reads the messages of each role [author].

    A role always reads its own. The graph depends on the arguments alone.

    Args:
        task: name of the task.
        key: tells apart the graphs of a task.
        roles: number of roles.
        share: probability of an edge between two roles, in [0, 1].
    """
    found = task_rng(task, key).random((roles, roles)) < share
    return tuple(
        tuple(bool(edge) or reader == author for author, edge in enumerate(row))
        for reader, row in enumerate(found)
    )
