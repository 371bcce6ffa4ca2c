"""Forms of requests to change a database."""

from __future__ import annotations

from agentgym.envs.database.grammar import Form, Grammar, with_a


def _raise_number(q: Grammar) -> tuple[str, str]:
    table = q.rng.choice(q.schema.tables)
    field, amount = q.number(table), q.rng.randint(2, 9)
    column = table.columns[field.noun]
    text, where = q.word_condition(table, table.name)
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
        f"Remove every {link.entity.singular} that belongs to {with_a(e.entity.singular)} {text}.",
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
        f"Add {with_a(i.entity.singular)} with the {i.entity.label.noun} {label} and the "
        f"{field.noun} {value} to the {g.entity.singular} {group}.",
        f"The {g.entity.singular} {group} has a new {i.entity.singular}: {i.entity.label.noun} "
        f"{label}, {field.noun} {value}. Insert it.",
    )
    columns = f"{i.label}, {i.columns[field.noun]}, {s.item_group}"
    sql = (
        f"INSERT INTO {i.name} ({columns}) SELECT '{label}', {value}, {g.key} FROM {g.name} "
        f"WHERE {g.label} = '{group}'"
    )
    return f"{ask} Use the next free id and leave all other columns empty.", sql


CHANGES: tuple[Form, ...] = (
    *(_raise_number, _fill_missing, _change_by_group),
    *(_delete_links, _delete_unlinked, _insert),
)
