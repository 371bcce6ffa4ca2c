"""A database of JSON records with copy-on-write changes."""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from agentgym.errors import DataError
from agentgym.reading.typography import normalized

Record = dict[str, Any]
Changes = dict[str, dict[str, Any]]
"""Table -> key -> changed or added record."""


_MOST_TEXTS = 4096
"""Number of records whose text is cached per database."""


class Tables:
    """The initial tables of a database. They are shared by all episodes and never modified.

    Args:
        records: table -> key -> record.
        as_text: a function that returns the text of a record. Records are equal iff their texts
            are: `canonical` as in tau-bench, or `by_value`.
    """

    def __init__(
        self,
        records: dict[str, dict[str, Record]],
        as_text: Callable[[Record], str] | None = None,
    ):
        self.records = records
        self.as_text = as_text or canonical
        self._texts: dict[tuple[str, str], str] = {}
        self._known: dict[str, str] = {}

    def text_of(self, record: Record) -> str:
        """Returns a record as text. The result is cached by the record's `repr`, which is fast."""
        shown = repr(record)
        if shown not in self._known:
            if len(self._known) >= _MOST_TEXTS:
                self._known.clear()
            self._known[shown] = self.as_text(record)
        return self._known[shown]

    def initial(self, table: str, key: str) -> str:
        """Returns an initial record as text. The result is cached."""
        place = table, key
        if place not in self._texts:
            self._texts[place] = self.as_text(self.records[table][key])
        return self._texts[place]

    @functools.cache  # noqa: B019  (tables live as long as the process)
    def rows(self, table: str) -> dict[str, str]:
        """Returns the records of a table as text, sorted by key. It must not be modified."""
        return {key: self.initial(table, key) for key in sorted(self.records[table])}

    @functools.cache  # noqa: B019
    def keys_by_name(self, table: str) -> dict[str, str]:
        """Returns the keys of a table by `plain_key`. It must not be modified."""
        return {plain_key(key): key for key in self.records[table]}

    @functools.cache  # noqa: B019
    def text(self, table: str) -> str:
        """Returns a table as text for the digest."""
        return table_text(table, self.rows(table))


class Database:
    """The tables of an episode: the initial ones with the changes of the episode.

    Args:
        tables: the initial tables.
        changes: the changes, which this object modifies.
    """

    def __init__(self, tables: Tables, changes: Changes):
        self.tables = tables
        self.changes = changes

    def find(self, table: str, key: str) -> Record | None:
        """Returns a record, which must not be modified, or None."""
        changed = self.changes.get(table, {}).get(key)
        return self.tables.records[table].get(key) if changed is None else changed

    def rows(self, table: str) -> Iterator[tuple[str, Record]]:
        """Yields keys and records of a table. The records must not be modified."""
        changed, records = self.changes.get(table, {}), self.tables.records[table]
        for key, record in records.items():
            yield key, changed.get(key, record)
        for key, record in changed.items():
            if key not in records:
                yield key, record

    def edit(self, table: str, key: str) -> Record:
        """Returns an existing record to be modified."""
        changed = self.changes.setdefault(table, {})
        if key not in changed:
            changed[key] = copied(self.tables.records[table][key])
        return changed[key]

    def add(self, table: str, key: str, record: Record) -> None:
        """Adds a record."""
        self.changes.setdefault(table, {})[key] = record

    def equals(self, other: Database) -> bool:
        """Returns whether two databases with the same initial tables are equal."""
        changes = (*self.changes.items(), *other.changes.items())
        places = {(table, key) for table, changed in changes for key in changed}
        return all(self._text(*place) == other._text(*place) for place in places)

    def _text(self, table: str, key: str) -> str:
        """Returns a record as text, or "" if there is none."""
        changed = self.changes.get(table, {}).get(key)
        if changed is not None:
            return self.tables.text_of(changed)
        return self.tables.initial(table, key) if key in self.tables.records[table] else ""

    def difference(self) -> dict[tuple[str, str], str]:
        """Returns the records that differ from the initial ones, as text."""
        found = {}
        for table, changed in self.changes.items():
            records = self.tables.records[table]
            for key, record in changed.items():
                text = self.tables.text_of(record)
                if key not in records or text != self.tables.initial(table, key):
                    found[table, key] = text
        return found

    def digest(self) -> str:
        """Returns the SHA-256 of all tables, equal to tau-bench's `get_data_hash`."""
        difference = self.difference()
        tables = []
        for table in sorted(self.tables.records):
            changed = {key: text for (t, key), text in difference.items() if t == table}
            if changed:
                rows = dict(sorted({**self.tables.rows(table), **changed}.items()))
                tables.append(table_text(table, rows))
            else:
                tables.append(self.tables.text(table))
        return hashlib.sha256(_tuple(tables).encode()).hexdigest()


def copied(value: Any) -> Any:
    """Returns a copy of a JSON value, faster than `copy.deepcopy`."""
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    return [copied(item) for item in value] if isinstance(value, list) else value


def canonical(value: Any) -> str:
    """Returns a JSON value as text in which the order of keys does not matter.

    It is the text of nested tuples, as tau-bench hashes it.
    """
    return repr(_nested(value))


def _nested(value: Any) -> Any:
    """Returns a JSON value as nested tuples."""
    if isinstance(value, dict):
        return tuple([(key, _nested(item)) for key, item in sorted(value.items())])
    return tuple([_nested(item) for item in value]) if isinstance(value, list) else value


def by_value(value: Any) -> str:
    """Returns a JSON value as text that is equal for equal values.

    Numbers count as rounded to 6 digits, so that 195 is 195.0, but not true. Capitals, white space
    and the typography of strings do not matter.
    """
    return repr(_nested_by_value(value))


def _nested_by_value(value: Any) -> Any:
    """Returns a JSON value as nested tuples, with one value in place of equal ones."""
    if isinstance(value, str):
        return _plain(value)
    if isinstance(value, dict):
        return tuple([(key, _nested_by_value(item)) for key, item in sorted(value.items())])
    if isinstance(value, list):
        return tuple([_nested_by_value(item) for item in value])
    if isinstance(value, float):
        rounded = round(value, 6)
        return int(rounded) if rounded.is_integer() else rounded
    return value


@functools.lru_cache(maxsize=4096)
def _plain(text: str) -> str:
    return " ".join(normalized(text).casefold().split())


@functools.lru_cache(maxsize=4096)
def plain_key(text: str) -> str:
    """Returns the letters and digits of a key, in which "#W123" is "w123"."""
    return "".join(char for char in normalized(text).casefold() if char.isalnum())


def table_text(table: str, rows: dict[str, str]) -> str:
    """Returns a table as text, given its records as text, sorted by key."""
    pairs = [f"({key!r}, {text})" for key, text in rows.items()]
    return f"({table!r}, {_tuple(pairs)})"


def _tuple(parts: list[str]) -> str:
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


def read_json(folder: str, name: str) -> Any:
    """Returns the content of a JSON file.

    Raises:
        DataError: if the file is missing or damaged.
    """
    path = Path(folder).expanduser() / name
    try:
        return json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise DataError(
            f"There is no file {name} in {folder!r}. data_dir is a folder of tau-bench, such as "
            "tau_bench/envs/retail, or of tau2-bench, such as data/tau2/domains/retail."
        ) from None
    except (OSError, ValueError) as error:
        raise DataError(f"{path} is not a readable JSON file: {error!s:.200}") from error


def read_policy(folder: str, name: str) -> str:
    """Returns the text of a policy.

    Raises:
        DataError: if the file is missing.
    """
    path = Path(folder).expanduser() / name
    if not os.path.isfile(path):
        raise DataError(f"There is no file {name}, the policy, in {folder!r}.")
    return path.read_text("utf-8").strip()


def read_tables(folder: str, names: tuple[str, ...]) -> Tables:
    """Returns the tables of a folder with one JSON file per table, which may be in `data`.

    Raises:
        DataError: if a file is missing, damaged or not an object of objects.
    """
    inner = os.path.join(folder, "data")
    place = inner if os.path.isdir(os.path.expanduser(inner)) else folder
    return checked_tables({name: read_json(place, f"{name}.json") for name in names}, folder)


def checked_tables(records: dict[str, Any], folder: str) -> Tables:
    """Returns the tables of a folder.

    Args:
        records: name of a table -> its content.
        folder: the folder, for errors.

    Raises:
        DataError: if a table is not an object of objects.
    """
    for name, table in records.items():
        rows = table.values() if isinstance(table, dict) else [None]
        if not all(isinstance(record, dict) for record in rows):
            raise DataError(f"The table {name} in {folder!r} must be an object of records.")
    return Tables(records)
