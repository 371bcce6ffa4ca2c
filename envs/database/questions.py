"""The request of a task: a question or a change, with the statement that fulfils it."""

from __future__ import annotations

import random
from dataclasses import dataclass

from agentgym.envs.database.change_forms import CHANGES
from agentgym.envs.database.grammar import Grammar
from agentgym.envs.database.query_forms import FORMS
from agentgym.envs.database.sandbox import Connection, Multiset, as_multiset
from agentgym.envs.database.world import World, world
from agentgym.tasks import task_number, task_rng

WORLDS = 256
"""Number of databases per split."""
LEVELS = tuple(FORMS)
KINDS = (*LEVELS, "mixed")


@dataclass(frozen=True)
class Question:
    """A request.

    Attributes:
        text: the request in English.
        sql: the statement that fulfils it.
        tables: the tables that the statement names.
        expected: for a query, its rows on each hidden database. For a change, the rows of each
            table of the visible database after it.
    """

    text: str
    sql: str
    tables: tuple[str, ...]
    expected: list[Multiset]


def world_of(task: str) -> World:
    """Returns the database of a task. Training and test tasks have different ones."""
    return world(f"{task.partition('/')[0]}/{task_number(task) % WORLDS}")


def draw_question(task: str, level: str, *, writes: bool) -> Question:
    """Returns the request of a task.

    The results of a query differ between the hidden databases, so that no constant is right, and
    are not empty in the visible one. A change changes the visible database.
    """
    found = world_of(task)
    rng = random.Random(int(task_rng(task, f"question {level} {writes}").integers(2**63)))
    forms = CHANGES if writes else FORMS[rng.choice(LEVELS) if level == "mixed" else level]
    contents = found.contents[:1] if writes else found.contents
    opened = [Connection(content, found.names, writes=writes) for content in contents]
    before = opened[0].tables() if writes else []
    while True:
        text, sql = rng.choice(forms)(Grammar(found.schema, rng))
        visible, *expected = [as_multiset(connection.execute(sql)[1]) for connection in opened]
        if writes:
            expected = opened[0].tables()
            good = expected != before
        else:
            empty = all(set(row) <= {"NoneType None"} for row in visible)
            good = not empty and any(rows != expected[0] for rows in expected[1:])
        if good:
            break
    for connection in opened:
        connection.close()
    words = sql.replace("(", " ").split()
    tables = tuple(name for name in found.names if name in words)
    return Question(text, sql, tables, expected)
