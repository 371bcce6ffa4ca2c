"""Generated databases: one schema, one visible content and several hidden contents."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from agentgym.envs.database.themes import THEMES, Entity, Field, Theme
from agentgym.tasks import task_rng

HIDDEN = 3
"""Number of hidden contents that an answer is compared on."""
NULLS = 0.12
"""Share of missing values in columns that are not required."""
_ROWS = {"group": (5, 7), "item": (16, 24), "event": (6, 8), "link": (24, 36)}


@dataclass(frozen=True)
class Table:
    """A table: its name in SQL and the names of its columns by their noun in the theme."""

    name: str
    key: str
    entity: Entity
    columns: dict[str, str]

    @property
    def label(self) -> str:
        """The column that names a row."""
        return self.columns[self.entity.label.noun]

    def fields(self, *, numeric: bool) -> list[Field]:
        """Returns the number columns, or the word columns without the label."""
        return [field for field in self.entity.fields if bool(field.high) == numeric]


@dataclass(frozen=True)
class Schema:
    """Four tables and the names of their foreign keys.

    Attributes:
        group: the groups that items belong to.
        item: the items, with the foreign key `item_group`.
        event: the events.
        link: pairs of items and events, with the foreign keys `link_item` and `link_event`.
    """

    group: Table
    item: Table
    event: Table
    link: Table
    item_group: str
    link_item: str
    link_event: str

    @property
    def tables(self) -> tuple[Table, ...]:
        """All tables."""
        return self.group, self.item, self.event, self.link

    def definitions(self) -> Iterator[str]:
        """Yields the CREATE statement of each table."""
        references = {
            "item": {self.item_group: self.group},
            "link": {self.link_item: self.item, self.link_event: self.event},
        }
        for role in ("group", "item", "event", "link"):
            table: Table = getattr(self, role)
            lines = [f"{table.key} INTEGER PRIMARY KEY"]
            for field in _fields(table.entity):
                kind = "INTEGER" if field.high else "TEXT"
                lines.append(f"{table.columns[field.noun]} {kind}{' NOT NULL' * field.required}")
            for column, other in references.get(role, {}).items():
                lines.append(f"{column} INTEGER REFERENCES {other.name}({other.key})")
            yield f"CREATE TABLE {table.name} ({', '.join(lines)})"


def _fields(entity: Entity) -> tuple[Field, ...]:
    return (entity.label, *entity.fields) if entity.label.noun else entity.fields


def draw_schema(rng: random.Random, theme: Theme) -> Schema:
    """Samples the names of the tables and columns of a theme."""
    style = rng.choice(("singular", "plural", "prefixed"))
    prefix_columns, own_keys = rng.random() < 0.3, rng.random() < 0.5
    reference = rng.choice(("{}_id", "{}_ref", "{}_no"))

    def table(entity: Entity) -> Table:
        stem = entity.singular.replace(" ", "_")
        name = {"singular": stem, "plural": entity.plural, "prefixed": f"tbl_{stem}"}[style]
        before = f"{stem}_" if prefix_columns else ""
        columns = {f.noun: before + f.noun.replace(" ", "_") for f in _fields(entity)}
        return Table(name, f"{stem}_id" if own_keys else "id", entity, columns)

    return Schema(
        *map(table, (theme.group, theme.item, theme.event, theme.link)),
        item_group=reference.format(theme.group.singular),
        link_item=reference.format(theme.item.singular),
        link_event=reference.format(theme.event.singular),
    )


class Content:
    """Samples the rows of a database: missing values, equal names and repeated links included."""

    def __init__(self, rng: random.Random):
        self._rng = rng

    def rows(self, schema: Schema) -> Iterator[tuple[str, list[list[object]]]]:
        """Yields the name of each table and its rows."""
        rng = self._rng
        counts = {role: rng.randint(*_ROWS[role]) for role in _ROWS}
        for role, count in counts.items():
            table: Table = getattr(schema, role)
            labels = list(table.entity.label.words)
            if role in ("group", "event") and len(set(labels)) >= count:
                labels = rng.sample(labels, count)  # groups have unique names
            else:
                labels = [rng.choice(labels) for _ in range(count)] if labels else []
            rows: list[list[object]] = []
            for number in range(count):
                row: list[object] = [number + 1, *labels[number : number + 1]]
                row += [self._value(field) for field in table.entity.fields]
                rows.append(row)
            if role == "item":
                for row in rows:
                    row.append(self._reference(counts["group"]))
            elif role == "link":
                # The last few items and events have no link.
                items, events = counts["item"] - 3, counts["event"] - 1
                for row in rows:
                    row += [rng.randint(1, items), rng.randint(1, events)]
                for row in rng.sample(rows, 3):
                    row[-2:] = rng.choice(rows)[-2:]
            yield table.name, rows

    def _value(self, field: Field) -> object:
        if not field.required and self._rng.random() < NULLS:
            return None
        if field.words:
            return self._rng.choice(field.words)
        return self._rng.randint(field.low, field.high)

    def _reference(self, count: int) -> object:
        # The last group is empty, so that inner and outer joins differ.
        return None if self._rng.random() < NULLS else self._rng.randint(1, count - 1)


class World:
    """A schema with a visible content (0) and hidden ones (1 to `HIDDEN`).

    Args:
        name: the name that determines everything, such as "train/7".
    """

    def __init__(self, name: str):
        rng = random.Random(int(task_rng(name, "database").integers(2**63)))
        self.schema = draw_schema(rng, rng.choice(THEMES))
        self.names = tuple(table.name for table in self.schema.tables)
        self.contents = tuple(self._content(rng) for _ in range(1 + HIDDEN))

    def _content(self, rng: random.Random) -> bytes:
        connection = sqlite3.connect(":memory:")
        with connection:
            for definition in self.schema.definitions():
                connection.execute(definition)
            for table, rows in Content(rng).rows(self.schema):
                places = ", ".join("?" * len(rows[0]))
                connection.executemany(f"INSERT INTO {table} VALUES ({places})", rows)
        content = connection.serialize()
        connection.close()
        return content


@lru_cache(maxsize=512)
def world(name: str) -> World:
    """Returns the world of a name. Environments share it."""
    return World(name)
