"""A SQLite connection for statements of an untrusted agent.

Statements run in memory. An authorizer permits reading the tables, and on request changing them. It
refuses files, pragmas, schema changes, transactions and functions that are not deterministic. A
progress handler stops statements after a number of virtual machine instructions, so that the limit
does not depend on the speed of the machine. Functions whose work it does not see are charged for
(`charged_functions`). Lengths of texts and numbers of rows are bounded.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Collection, Iterator, Sequence

from agentgym.envs.database.charged_functions import Budget, install

Row = tuple[object, ...]
Multiset = list[tuple[str, ...]]
"""Rows in a form that is equal for equal multisets of rows."""

MAX_ROWS = 1000
"""Number of rows of a result that are fetched."""
_INSTRUCTIONS = 200_000
_STRIDE = 2_000
_PAGES = 500  # of 4 KiB
_EXPANSIONS = 256
_TOKEN = re.compile(
    r"""'(?P<e>(?:[^']|'')*)'|"(?P<a>(?:[^"]|"")*)"|`(?P<b>[^`]*)`|\[(?P<c>[^\]]*)\]"""
    r"""|--[^\n]*|/\*.*?(?:\*/|\Z)|(?P<d>[\w$\x80-\U0010ffff]+)|(?P<mark>[().])""",
    re.DOTALL,
)
_FUNCTIONS = frozenset(
    "abs avg coalesce count cume_dist dense_rank first_value format glob group_concat hex ifnull "
    "iif instr lag last_value lead length like lower ltrim max min ntile nth_value nullif "
    "percent_rank printf rank replace round row_number rtrim sign string_agg substr "
    "substring sum total trim typeof unicode upper".split()
)
_READING = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE})
_WRITING = frozenset({sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE})
_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: 1_000,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 4_000,
    sqlite3.SQLITE_LIMIT_COLUMN: 100,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 50,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 10,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 50,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}


class Refused(Exception):
    """Raised if a statement fails or is not permitted, with a message for the agent."""


class Connection:
    """A private copy of a database that executes statements under the limits of this module.

    Args:
        content: the database, as returned by `sqlite3.Connection.serialize`.
        tables: names of its tables.
        writes: whether INSERT, UPDATE and DELETE are permitted.
    """

    def __init__(self, content: bytes, tables: Collection[str], *, writes: bool = False):
        self._tables = tuple(tables)
        self._writes = writes
        self._budget = Budget()
        # An environment may be made in one thread and stepped in another, one at a time.
        self._raw = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        # A text that is no UTF-8 must not fail after the statement has changed rows.
        self._raw.text_factory = lambda text: text.decode("utf-8", "replace")
        self._raw.deserialize(content)
        self._raw.execute("PRAGMA temp_store = MEMORY")
        if writes:
            self._raw.execute(f"PRAGMA max_page_count = {_PAGES}")
        for limit, value in _LIMITS.items():
            self._raw.setlimit(limit, value)
        install(self._raw, self._budget, _LIMITS)
        self._raw.set_authorizer(self._authorize)
        self._raw.set_progress_handler(self._tick, _STRIDE)

    def execute(self, statement: str) -> tuple[list[str], list[Row]]:
        """Returns the column names and the first `MAX_ROWS` rows of a statement's result.

        A statement that fails changes nothing.

        Raises:
            Refused: if it fails, takes too long or is not permitted.
        """
        self._budget.start(_INSTRUCTIONS)
        if expansions(statement[: _LIMITS[sqlite3.SQLITE_LIMIT_SQL_LENGTH]]) > _EXPANSIONS:
            raise Refused("the common table expressions refer to each other too often")
        try:
            cursor = self._raw.execute(statement)
            columns = [str(column[0]) for column in cursor.description or ()]
            rows = cursor.fetchmany(MAX_ROWS) if columns else []
            cursor.close()
        except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError, MemoryError) as error:
            raise Refused(self._explain(error)) from None
        return columns, rows

    def tables(self) -> list[Multiset]:
        """Returns the rows of each table as a multiset."""
        return [as_multiset(self.execute(f"SELECT * FROM {name}")[1]) for name in self._tables]

    @property
    def changes(self) -> int:
        """Number of rows changed since the connection was opened."""
        return self._raw.total_changes

    def close(self) -> None:
        """Frees the copy."""
        self._raw.close()

    def _tick(self) -> int:
        return self._budget.spend(_STRIDE)

    def _authorize(self, action: int, first: str | None, second: str | None, *_: object) -> int:
        if action in _READING:
            allowed = True
        elif action == sqlite3.SQLITE_READ:
            # A query that only counts the rows of a subquery reads the column "" of its alias.
            allowed = second == "" or first in (*self._tables, "sqlite_master")
        elif action == sqlite3.SQLITE_FUNCTION:
            allowed = (second or "").lower() in _FUNCTIONS
        else:
            allowed = self._writes and action in _WRITING and first in self._tables
        return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY

    def _explain(self, error: Exception) -> str:
        message = self._budget.failure or str(error)
        message = message.encode("utf-8", "replace").decode()[:200]
        if isinstance(error, MemoryError) or message in ("string or blob too big", "out of memory"):
            return "the result is too large"
        if message == "interrupted":
            return "the statement takes too long and was stopped"
        if message.startswith(("not authorized", "access to", "too many attached")):
            kinds = "SELECT, INSERT, UPDATE and DELETE" if self._writes else "SELECT"
            return f"{message}: only {kinds} on the tables of this database is permitted"
        return message


def expansions(statement: str) -> int:
    """Returns an upper bound on the copies of a common table expression that SQLite makes.

    SQLite copies its query at every reference before any limit applies, so that a chain in which
    each refers to the one before twice takes exponential time.
    """
    if "with" not in statement.lower():
        return 1
    found = [m for m in _TOKEN.finditer(statement) if m.lastgroup]
    # A name may be quoted in four ways, also as a string.
    words = [next(filter(None, m.groups()), "").casefold() for m in found]
    words = [word.replace("'", "").replace('"', "") for word in words]
    copies = 1
    for name in _defined(words):
        uses = [i for i, word in enumerate(words) if word == name and words[i + 1 : i + 2] != ["."]]
        copies *= max(1, len(uses) - 1)
    return copies


def _defined(words: list[str]) -> Iterator[str]:
    """Yields the names before AS (...), with or without a list of columns."""
    for place, word in enumerate(words[:-1]):
        rest = [w for w in words[place + 1 : place + 4] if w not in ("not", "materialized")]
        if word == "as" and place and rest[:1] == ["("]:
            before = place - 1
            if words[before] == ")":
                while before > 0 and words[before] != "(":
                    before -= 1
                before -= 1
            yield words[max(before, 0)]


def as_multiset(rows: Sequence[Row]) -> Multiset:
    """Returns rows in a form that is equal for equal multisets of rows.

    Integers equal floats of the same value. Numbers are compared to 9 significant digits.
    """
    return sorted(tuple(map(_canonical, row)) for row in rows)


def _canonical(value: object) -> str:
    if isinstance(value, int | float):
        return f"number {value + 0.0:.9g}" if value else "number 0"
    return f"{type(value).__name__} {value}"
