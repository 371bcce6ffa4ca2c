"""Parts of requests in English with their SQL: columns, conditions, joins and paraphrases."""

from __future__ import annotations

import random
from collections.abc import Callable

from agentgym.envs.database.themes import Field
from agentgym.envs.database.world import Schema, Table


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
            return self.word_condition(table, alias)
        return self.number_condition(table, alias)

    def word_condition(self, table: Table, alias: str) -> tuple[str, str]:
        """Samples a condition on a word column."""
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

    def number_condition(self, table: Table, alias: str) -> tuple[str, str]:
        """Samples a condition on a number column."""
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


Form = Callable[[Grammar], tuple[str, str]]
"""Samples a request in English and the statement that fulfils it."""


def with_a(noun: str) -> str:
    """Returns "an age" or "a price"."""
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"
