"""Forms of questions on one table, on two, and of nested and grouped queries.

The last ones have the traps of missing values, equal names and rows without a partner.
"""

from __future__ import annotations

from agentgym.envs.database.grammar import Form, Grammar, with_a

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
    text, where = q.word_condition(table, "t")
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
    text, where = q.number_condition(table, "t")
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
        f"List the {item.plural} {more} that belong to {with_a(group.singular)} {text}.",
        f"Which {item.plural} {more} belong to {with_a(group.singular)} {text}?",
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
        f"Which {i.entity.plural} have {with_a(link.singular)} {text} with the "
        f"{e.entity.singular} {event}?",
        f"Find the {i.entity.plural} with {with_a(link.singular)} {text} for the "
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
        f"Which {item.plural} have {with_a(field.noun)} above the average {whose}?",
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
        f"{i.entity.plural} have {with_a(q.l.entity.singular)} with it.",
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


FORMS: dict[str, tuple[Form, ...]] = {
    "easy": (_list, _count, _aggregate, _distinct, _extreme),
    "medium": (_join, _join_aggregate, _count_per_group, _having, _linked),
    "hard": (
        *(_without, _above_average, _best_per_group),
        *(_total_per_item, _groups_in_events, _same_label),
    ),
}
"""The forms of each level."""
