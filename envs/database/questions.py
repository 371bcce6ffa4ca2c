"""Questions and change requests about a generated database, with their statements in SQL.

Each form of the grammar returns a request in English, in one of several paraphrases, and the
statement that fulfils it. Forms of three levels: one table, two tables, and nested or grouped
queries with the traps of missing values, equal names and rows without a partner.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from agentgym.envs.database.sandbox import Connection, Multiset, as_multiset
from agentgym.envs.database.themes import Field
from agentgym.envs.database.world import Schema, Table, World, world
from agentgym.tasks import task_number, task_rng

WORLDS = 256
"""Number of databases per split."""
LEVELS = ("easy", "medium", "hard")
KINDS = (*LEVELS, "mixed")

Form = Callable[["Grammar"], tuple[str, str]]


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


class Grammar:
    """Samples the parts of requests.

    Args:
        schema: the tables.
        rng: samples forms, columns, constants and paraphrases.
    """

    def __init__(self, schema: Schema, rng: random.Random):
        self.schema, self.rng = schema, rng
        self.g, self.i, self.e, self.l = schema.tables

    def say(self, *paraphrases: str) -> str:
        """Returns one of several paraphrases."""
        return self.rng.choice(paraphrases)

    def number(self, table: Table) -> Field:
        """Samples a number column."""
        return self.rng.choice(table.fields(numeric=True))

    def word(self, table: Table) -> Field:
        """Samples a word column."""
        return self.rng.choice(table.fields(numeric=False))

    def condition(self, table: Table, alias: str) -> tuple[str, str]:
        """Samples a condition on a row: "whose city is Arden", and its SQL."""
        if self.rng.random() < 0.5:
            return self._word_condition(table, alias)
        return self._number_condition(table, alias)

    def _word_condition(self, table: Table, alias: str) -> tuple[str, str]:
        field = self.word(table)
        column, noun = f"{alias}.{table.columns[field.noun]}", field.noun
        one, other = self.rng.sample(field.words, 2)
        return self.rng.choice(
            (
                (f"whose {noun} is {one}", f"{column} = '{one}'"),
                (f"whose {noun} is {one} or {other}", f"{column} IN ('{one}', '{other}')"),
                (f"whose {noun} is known and is not {one}", f"{column} <> '{one}'"),
                (
                    f"whose {noun} is missing or is not {one}",
                    f"({column} IS NULL OR {column} <> '{one}')",
                ),
            )
        )

    def _number_condition(self, table: Table, alias: str) -> tuple[str, str]:
        field = self.number(table)
        column, noun = f"{alias}.{table.columns[field.noun]}", field.noun
        third = (field.high - field.low) // 3
        low = self.rng.randint(field.low + third // 2, field.low + third)
        high = self.rng.randint(field.high - third, field.high - third // 2)
        return self.rng.choice(
            (
                (f"whose {noun} is at least {low}", f"{column} >= {low}"),
                (f"whose {noun} is below {high}", f"{column} < {high}"),
                (f"whose {noun} is above {low}", f"{column} > {low}"),
                (
                    f"whose {noun} is between {low} and {high} (both included)",
                    f"{column} BETWEEN {low} AND {high}",
                ),
                (f"whose {noun} is missing", f"{column} IS NULL"),
            )
        )

    def source(self) -> Table:
        """Samples a table whose rows have a name."""
        return self.rng.choice((self.i, self.i, self.g, self.e))

    @property
    def items_of_groups(self) -> str:
        """The join of items with their groups."""
        g, i = self.g, self.i
        return f"{i.name} i JOIN {g.name} g ON i.{self.schema.item_group} = g.{g.key}"

    @property
    def items_in_events(self) -> str:
        """The join of items with their links and events."""
        s, i, e = self.schema, self.i, self.e
        links = f"{i.name} i JOIN {self.l.name} l ON l.{s.link_item} = i.{i.key}"
        return f"{links} JOIN {e.name} e ON l.{s.link_event} = e.{e.key}"


# One table.


def _list(q: Grammar) -> tuple[str, str]:
    table = q.source()
    noun, field = table.entity.label.noun, q.rng.choice(table.entity.fields)
    text, where = q.condition(table, "t")
    ask = q.say(
        f"List the {noun} and the {field.noun} of each {table.entity.singular} {text}.",
        f"For every {table.entity.singular} {text}, return the {noun} and the {field.noun}.",
        f"Which {table.entity.plural} are there {text}? Return {noun} and {field.noun}.",
    )
    columns = f"t.{table.label}, t.{table.columns[field.noun]}"
    return ask, f"SELECT {columns} FROM {table.name} t WHERE {where}"


def _count(q: Grammar) -> tuple[str, str]:
    table = q.rng.choice(q.schema.tables)
    one, first = q.condition(table, "t")
    other, second = q.condition(table, "t")
    ask = q.say(
        f"How many {table.entity.plural} are there {one} and {other}?",
        f"Count the {table.entity.plural} {one} and {other}.",
    )
    return ask, f"SELECT COUNT(*) FROM {table.name} t WHERE {first} AND {second}"


def _aggregate(q: Grammar) -> tuple[str, str]:
    table = q.rng.choice(q.schema.tables)
    field = q.number(table)
    word, function = q.rng.choice(
        (("average", "AVG"), ("total", "SUM"), ("highest", "MAX"), ("lowest", "MIN"))
    )
    text, where = q._word_condition(table, "t")
    ask = q.say(
        f"What is the {word} {field.noun} of the {table.entity.plural} {text}?",
        f"Compute the {word} {field.noun} over all {table.entity.plural} {text}.",
    )
    return (
        ask,
        f"SELECT {function}(t.{table.columns[field.noun]}) FROM {table.name} t WHERE {where}",
    )


def _distinct(q: Grammar) -> tuple[str, str]:
    table = q.rng.choice((q.i, q.e, q.l))
    field = q.word(table)
    column = f"t.{table.columns[field.noun]}"
    text, where = q._number_condition(table, "t")
    if q.rng.random() < 0.5:
        ask = f"How many different {field.noun} values do the {table.entity.plural} {text} have?"
        return ask, f"SELECT COUNT(DISTINCT {column}) FROM {table.name} t WHERE {where}"
    ask = q.say(
        f"Which {field.noun} values occur among the {table.entity.plural} {text}?",
        f"List the {field.noun} values of the {table.entity.plural} {text}.",
    )
    sql = f"SELECT DISTINCT {column} FROM {table.name} t WHERE {where} AND {column} IS NOT NULL"
    return f"{ask} Return each value once, without missing ones.", sql


def _extreme(q: Grammar) -> tuple[str, str]:
    table = q.source()
    field, noun = q.number(table), table.entity.label.noun
    column = table.columns[field.noun]
    word, function = q.rng.choice((("highest", "MAX"), ("lowest", "MIN")))
    ask = q.say(
        f"Which {table.entity.singular} has the {word} {field.noun}?",
        f"Find the {table.entity.plural} with the {word} {field.noun}.",
    )
    best = f"SELECT {function}({column}) FROM {table.name}"
    sql = f"SELECT t.{table.label}, t.{column} FROM {table.name} t WHERE t.{column} = ({best})"
    return f"{ask} Return {noun} and {field.noun}, and all rows if several are equal.", sql


# Two tables.


def _join(q: Grammar) -> tuple[str, str]:
    group, item = q.g.entity, q.i.entity
    text, where = q.condition(q.g, "g")
    more, second = q.condition(q.i, "i")
    ask = q.say(
        f"List the {item.plural} {more} that belong to {_a(group.singular)} {text}.",
        f"Which {item.plural} {more} belong to {_a(group.singular)} {text}?",
    )
    columns = f"i.{q.i.label}, g.{q.g.label}"
    sql = f"SELECT {columns} FROM {q.items_of_groups} WHERE {where} AND {second}"
    return f"{ask} Return the {item.label.noun} and the {group.singular} {group.label.noun}.", sql


def _join_aggregate(q: Grammar) -> tuple[str, str]:
    group, item, field = q.g.entity, q.i.entity, q.number(q.i)
    word, function = q.rng.choice((("average", "AVG"), ("total", "SUM"), ("highest", "MAX")))
    text, where = q.condition(q.g, "g")
    ask = q.say(
        f"What is the {word} {field.noun} of the {item.plural} of all {group.plural} {text}?",
        f"Take the {group.plural} {text}. Compute the {word} {field.noun} of their {item.plural}.",
    )
    column = q.i.columns[field.noun]
    return ask, f"SELECT {function}(i.{column}) FROM {q.items_of_groups} WHERE {where}"


def _count_per_group(q: Grammar) -> tuple[str, str]:
    g, i, s = q.g, q.i, q.schema
    ask = q.say(
        f"How many {i.entity.plural} does each {g.entity.singular} have?",
        f"Count the {i.entity.plural} of every {g.entity.singular}.",
    )
    on = f"i.{s.item_group} = g.{g.key}"
    if q.rng.random() < 0.5:
        text, where = q.condition(i, "i")
        ask, on = f"{ask} Count only {i.entity.plural} {text}.", f"{on} AND {where}"
    sql = (
        f"SELECT g.{g.label}, COUNT(i.{i.key}) FROM {g.name} g LEFT JOIN {i.name} i ON {on} "
        f"GROUP BY g.{g.key}"
    )
    return f"{ask} Return {g.entity.label.noun} and number, with 0 where there are none.", sql


def _having(q: Grammar) -> tuple[str, str]:
    g, i = q.g, q.i
    least = q.rng.randint(3, 5)
    ask = q.say(
        f"Which {g.entity.plural} have at least {least} {i.entity.plural}?",
        f"List the {g.entity.plural} with {least} or more {i.entity.plural}.",
    )
    sql = (
        f"SELECT g.{g.label}, COUNT(*) FROM {q.items_of_groups} GROUP BY g.{g.key} "
        f"HAVING COUNT(*) >= {least}"
    )
    return f"{ask} Return the {g.entity.label.noun} and the number.", sql


def _linked(q: Grammar) -> tuple[str, str]:
    i, e, link = q.i, q.e, q.l.entity
    event = q.rng.choice(e.entity.label.words)
    text, where = q.condition(q.l, "l")
    ask = q.say(
        f"Which {i.entity.plural} have {_a(link.singular)} {text} with the "
        f"{e.entity.singular} {event}?",
        f"Find the {i.entity.plural} with {_a(link.singular)} {text} for the "
        f"{e.entity.singular} {event}.",
    )
    sql = (
        f"SELECT DISTINCT i.{i.key}, i.{i.label} FROM {q.items_in_events} "
        f"WHERE e.{e.label} = '{event}' AND {where}"
    )
    return f"{ask} Return id and {i.entity.label.noun}, one row per {i.entity.singular}.", sql


# Nested and grouped queries.


def _without(q: Grammar) -> tuple[str, str]:
    i, link, s = q.i, q.l, q.schema
    exists = f"SELECT 1 FROM {link.name} l WHERE l.{s.link_item} = i.{i.key}"
    ask = f"List the {i.entity.plural} without any {link.entity.singular}"
    if q.rng.random() < 0.6:
        text, where = q.condition(link, "l")
        ask, exists = f"{ask} {text}", f"{exists} AND {where}"
    sql = f"SELECT i.{i.key}, i.{i.label} FROM {i.name} i WHERE NOT EXISTS ({exists})"
    return f"{ask}. Return id and {i.entity.label.noun}.", sql


def _above_average(q: Grammar) -> tuple[str, str]:
    i, s, field = q.i, q.schema, q.number(q.i)
    column, item, group = i.columns[field.noun], i.entity, q.g.entity
    average = f"SELECT AVG(o.{column}) FROM {i.name} o"
    whose = f"of all {item.plural}"
    if q.rng.random() < 0.6:
        average = f"{average} WHERE o.{s.item_group} = i.{s.item_group}"
        whose = f"of the {item.plural} of the same {group.singular}"
    ask = q.say(
        f"Which {item.plural} have {_a(field.noun)} above the average {whose}?",
        f"List the {item.plural} whose {field.noun} exceeds the average {field.noun} {whose}.",
    )
    sql = f"SELECT i.{i.key}, i.{i.label} FROM {i.name} i WHERE i.{column} > ({average})"
    return f"{ask} Return id and {item.label.noun}.", sql


def _best_per_group(q: Grammar) -> tuple[str, str]:
    g, i, s, field = q.g, q.i, q.schema, q.number(q.i)
    column, item, group = i.columns[field.noun], i.entity, g.entity
    ask = q.say(
        f"Which {item.singular} of each {group.singular} has the highest {field.noun}?",
        f"For every {group.singular}, find the {item.plural} with the highest {field.noun}.",
    )
    best = f"SELECT MAX(o.{column}) FROM {i.name} o WHERE o.{s.item_group} = i.{s.item_group}"
    sql = (
        f"SELECT g.{g.label}, i.{i.label}, i.{column} FROM {q.items_of_groups} "
        f"WHERE i.{column} = ({best})"
    )
    columns = f"{group.singular} {group.label.noun}, {item.label.noun} and {field.noun}"
    return f"{ask} Return {columns}, and all rows if several are equal.", sql


def _total_per_item(q: Grammar) -> tuple[str, str]:
    i, link, s, field = q.i, q.l, q.schema, q.number(q.l)
    ask = q.say(
        f"What is the total {field.noun} of each {i.entity.singular} over all "
        f"{link.entity.plural}?",
        f"Sum the {field.noun} of the {link.entity.plural} of every {i.entity.singular}.",
    )
    text, where = q.condition(i, "i")
    sql = (
        f"SELECT i.{i.key}, COALESCE(SUM(l.{link.columns[field.noun]}), 0) FROM {i.name} i "
        f"LEFT JOIN {link.name} l ON l.{s.link_item} = i.{i.key} WHERE {where} GROUP BY i.{i.key}"
    )
    return (
        f"{ask} Only {i.entity.plural} {text}. Return id and total, with 0 if there is none.",
        sql,
    )


def _groups_in_events(q: Grammar) -> tuple[str, str]:
    g, e, i, s = q.g, q.e, q.i, q.schema
    text, where = q.condition(e, "e")
    ask = q.say(
        f"For each {e.entity.singular} {text}, count the different {g.entity.plural} whose "
        f"{i.entity.plural} have {_a(q.l.entity.singular)} with it.",
        f"How many different {g.entity.plural} are connected with each {e.entity.singular} {text} "
        f"by {q.l.entity.plural} of their {i.entity.plural}?",
    )
    sql = (
        f"SELECT e.{e.label}, COUNT(DISTINCT i.{s.item_group}) FROM {q.items_in_events} "
        f"WHERE {where} GROUP BY e.{e.key} HAVING COUNT(DISTINCT i.{s.item_group}) > 0"
    )
    return f"{ask} Return {e.entity.label.noun} and number. Leave out those with 0.", sql


def _same_label(q: Grammar) -> tuple[str, str]:
    i, field = q.i, q.number(q.i)
    noun, column = i.entity.label.noun, i.columns[field.noun]
    ask = q.say(
        f"Which {noun}s are shared by several {i.entity.plural}?",
        f"Find every {noun} that more than one {i.entity.singular} has.",
    )
    sql = (
        f"SELECT i.{i.label}, COUNT(*), AVG(i.{column}) FROM {i.name} i GROUP BY i.{i.label} "
        "HAVING COUNT(*) > 1"
    )
    return f"{ask} Return the {noun}, the number of rows and the average {field.noun}.", sql


# Changes.


def _raise_number(q: Grammar) -> tuple[str, str]:
    table = q.rng.choice(q.schema.tables)
    field, amount = q.number(table), q.rng.randint(2, 9)
    column = table.columns[field.noun]
    text, where = q._word_condition(table, table.name)
    ask = q.say(
        f"Increase the {field.noun} of all {table.entity.plural} {text} by {amount}.",
        f"Add {amount} to the {field.noun} of every {table.entity.singular} {text}.",
    )
    return ask, f"UPDATE {table.name} SET {column} = {column} + {amount} WHERE {where}"


def _fill_missing(q: Grammar) -> tuple[str, str]:
    table = q.rng.choice(q.schema.tables)
    field = q.word(table)
    column, value = table.columns[field.noun], q.rng.choice(field.words)
    ask = q.say(
        f"Set the {field.noun} of all {table.entity.plural} without one to {value}.",
        f"Replace every missing {field.noun} of the {table.entity.plural} by {value}.",
    )
    return ask, f"UPDATE {table.name} SET {column} = '{value}' WHERE {column} IS NULL"


def _change_by_group(q: Grammar) -> tuple[str, str]:
    g, i, s, field = q.g, q.i, q.schema, q.word(q.i)
    value, name = q.rng.choice(field.words), q.rng.choice(g.entity.label.words)
    ask = q.say(
        f"Set the {field.noun} of all {i.entity.plural} of the {g.entity.singular} {name} to "
        f"{value}.",
        f"All {i.entity.plural} of the {g.entity.singular} {name} get the {field.noun} {value}.",
    )
    group = f"SELECT {g.key} FROM {g.name} WHERE {g.label} = '{name}'"
    column = i.columns[field.noun]
    return ask, f"UPDATE {i.name} SET {column} = '{value}' WHERE {s.item_group} IN ({group})"


def _delete_links(q: Grammar) -> tuple[str, str]:
    e, link, s = q.e, q.l, q.schema
    text, where = q.condition(e, "e")
    ask = q.say(
        f"Delete all {link.entity.plural} of {e.entity.plural} {text}.",
        f"Remove every {link.entity.singular} that belongs to {_a(e.entity.singular)} {text}.",
    )
    events = f"SELECT e.{e.key} FROM {e.name} e WHERE {where}"
    return ask, f"DELETE FROM {link.name} WHERE {s.link_event} IN ({events})"


def _delete_unlinked(q: Grammar) -> tuple[str, str]:
    i, link, s = q.i, q.l, q.schema
    ask = q.say(
        f"Delete the {i.entity.plural} that have no {link.entity.singular}.",
        f"Remove every {i.entity.singular} without any {link.entity.singular}.",
    )
    linked = f"SELECT {s.link_item} FROM {link.name}"
    return ask, f"DELETE FROM {i.name} WHERE {i.key} NOT IN ({linked})"


def _insert(q: Grammar) -> tuple[str, str]:
    g, i, s = q.g, q.i, q.schema
    label, group = q.rng.choice(i.entity.label.words), q.rng.choice(g.entity.label.words)
    field = q.number(i)
    value = q.rng.randint(field.low, field.high)
    ask = q.say(
        f"Add {_a(i.entity.singular)} with the {i.entity.label.noun} {label} and the {field.noun} "
        f"{value} to the {g.entity.singular} {group}.",
        f"The {g.entity.singular} {group} has a new {i.entity.singular}: {i.entity.label.noun} "
        f"{label}, {field.noun} {value}. Insert it.",
    )
    columns = f"{i.label}, {i.columns[field.noun]}, {s.item_group}"
    sql = (
        f"INSERT INTO {i.name} ({columns}) SELECT '{label}', {value}, {g.key} FROM {g.name} "
        f"WHERE {g.label} = '{group}'"
    )
    return f"{ask} Use the next free id and leave all other columns empty.", sql


def _a(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"


FORMS: dict[str, tuple[Form, ...]] = {
    "easy": (_list, _count, _aggregate, _distinct, _extreme),
    "medium": (_join, _join_aggregate, _count_per_group, _having, _linked),
    "hard": (
        *(_without, _above_average, _best_per_group),
        *(_total_per_item, _groups_in_events, _same_label),
    ),
}
CHANGES: tuple[Form, ...] = (
    *(_raise_number, _fill_missing, _change_by_group),
    *(_delete_links, _delete_unlinked, _insert),
)


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
