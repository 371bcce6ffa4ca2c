"""SQL: explore a database with queries and answer a question, or change the database."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from agentgym.core import TextEnv
from agentgym.envs.database.questions import KINDS, Question, draw_question, world_of
from agentgym.envs.database.sandbox import (
    MAX_ROWS,
    Connection,
    Multiset,
    Refused,
    Row,
    as_multiset,
)
from agentgym.tasks import Tasks
from agentgym.time_step import TimeStep
from agentgym.utils.action_parsing import code_command, command, plain

SHOWN_ROWS = 10
SHOWN_CELL = 60
SHOWN_COLUMNS = 20
_ANSWER = re.compile(r"answer\b[ \t]*:?\s*(.*)", re.IGNORECASE | re.DOTALL)
_SCHEMA = re.compile(
    r"(?:schema|\.?(?:schema|tables)|show (?:tables|schemas?)|describe tables"
    r"|(?:describe|desc|\.schema|show (?:columns|fields) (?:from|in)|show create table"
    r"|pragma table_(?:x?info|list)) ?[(`\"']{0,2}[\w.]{1,60}[)`\"']{0,2})",
    re.IGNORECASE,
)
"""Requests for the schema, also in the words of MySQL and SQLite."""
_LABEL = re.compile(r"(?:sql(?: query)?|query)\b[ \t]*:?\s+(?=(?:select|with)\b)", re.IGNORECASE)
_QUERY = re.compile(r"(?:select|with|values)\b", re.IGNORECASE)
_CHANGE = re.compile(r"(?:insert|update|delete|replace|with)\b", re.IGNORECASE)


@dataclass
class State:
    """The statements that changed the database, and the end.

    Attributes:
        changes: the successful statements that changed rows, in order.
        matched: the share of hidden databases on which the answer was right, or 1 for the right
            final state.
        submitted: whether the episode has been ended by the agent.
    """

    changes: list[str] = field(default_factory=list)
    matched: float = 0.0
    submitted: bool = False


@lru_cache(maxsize=1024)
def question_of(task: str, level: str, writes: bool) -> Question:
    """Returns the request of a task. Environments share it."""
    return draw_question(task, level, writes=writes)


def table_text(columns: list[str], rows: list[Row]) -> str:
    """Returns a result as text, cut to `SHOWN_ROWS` rows and `SHOWN_CELL` characters per value."""
    lines = [" | ".join(name[:SHOWN_CELL] for name in columns[:SHOWN_COLUMNS])]
    lines += [" | ".join(map(_cell, row[:SHOWN_COLUMNS])) for row in rows[:SHOWN_ROWS]]
    if len(rows) > SHOWN_ROWS:
        lines.append(f"... {len(rows) - SHOWN_ROWS} more rows")
    count = f"at least {MAX_ROWS}" if len(rows) >= MAX_ROWS else str(len(rows))
    return "\n".join([*lines, f"({count} row{'s' * (len(rows) != 1)})"])


def _cell(value: object) -> str:
    text = "NULL" if value is None else str(value)
    return text if len(text) <= SHOWN_CELL else text[:SHOWN_CELL] + "..."


class SQL(TextEnv):
    """Answer a question about a database with one SQL query, after exploring it with others.

    ## Description
    The database has four tables of one of eight subjects: groups, items that belong to a group,
    events, and links between items and events. Names of tables, columns and keys vary, two columns
    are easily confused (a salary and a starting salary), values are missing, names repeat, and
    groups may be empty. The agent reads the schema, runs queries on the visible database, and
    submits one query. Its result must equal the result of the reference query, as a multiset of
    rows, on three hidden databases with the same schema and other rows, so that constants and
    lucky queries fail. With `writes`, the agent changes the database itself, and its final state is
    compared with the state after the reference statement.

    Statements run in memory under an authorizer, a limit of instructions, and limits of size: no
    statement reaches a file or runs forever.

    ## Action Space
    Text, one of:

    - `schema`: show the tables and their columns.
    - `SELECT ...` or `WITH ...`: run a query (SQLite) on the visible database.
    - `answer SELECT ...`: submit a query as the answer.
    - With `writes`, `INSERT ...`, `UPDATE ...`, `DELETE ...` to change the database, and `done` to
      submit it instead of `answer`.

    ## Observation Space
    Text: the result of the last action (at most 10 rows), then the question.

    ## Rewards
    1 (term `task`) for an answer that is right on all hidden databases, or for the right final
    state, else 0. An invalid action costs `invalid_penalty`.

    ## Starting State
    A database and a question sampled from the task name. Each split has 256 databases of its own.
    The answer differs between the hidden databases. The schema is shown only on request, unless
    `show_schema` is set.

    ## Episode End
    Termination: `answer` with a query that runs on the visible database, or `done`. Truncation:
    after `max_turns` turns.

    ## Information
    The common keys. `admissible` is empty. `progress` is the share of hidden databases on which the
    submitted query was right, or 1 for the right final state, and 0 before.

    ## Arguments
    - `level` (str, default "mixed"): "easy" (one table), "medium" (two tables), "hard" (nested and
      grouped queries) or "mixed". Changes have no levels.
    - `writes` (bool, default False): whether tasks are changes of the database.
    - `show_schema` (bool, default False): whether the first observation contains the schema.
    - `max_turns` (int or None, default 12): turn limit.

    ## References
    Multi-turn text-to-SQL as in the database task of AgentBench (arXiv 2308.03688) and SkyRL-SQL.
    Comparison on several contents follows "Semantic Evaluation for Text-to-SQL with Distilled Test
    Suites" (arXiv 2010.02840). All databases and questions are generated.

    ## Version History
    v0: first version.
    """

    State = State
    cased = True

    def __init__(
        self,
        *,
        level: str = "mixed",
        writes: bool = False,
        show_schema: bool = False,
        max_turns: int | None = 12,
        **kwargs,
    ):
        if level not in KINDS:
            raise ValueError(f"level must be one of {KINDS}, got {level!r}.")
        super().__init__(max_turns=max_turns, **kwargs)
        self.level, self.writes, self.show_schema = level, writes, show_schema
        self.tasks = Tasks.generated()
        self.instructions = CHANGE_INSTRUCTIONS if writes else QUERY_INSTRUCTIONS
        self._opened: Connection | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_opened": None}  # rebuilt from the state

    @property
    def question(self) -> Question:
        """The request of the task and its reference statement."""
        return question_of(self.task, self.level, self.writes)

    @property
    def database(self) -> Connection:
        """The visible database after the agent's changes."""
        if self._opened is None:
            self._opened = self._open()
            for statement in self.state.changes:
                self._opened.execute(statement)
        return self._opened

    def _open(self, content: int = 0) -> Connection:
        found = world_of(self.task)
        return Connection(found.contents[content], found.names, writes=self.writes)

    def _close(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def close(self) -> None:
        """Frees the visible database."""
        self._close()
        super().close()

    def _restored(self) -> None:
        self._opened = None
        assert self.database is not None

    def _start(self, task: str) -> TimeStep:
        self.state = State()
        self._close()
        return self._look(self._schema() if self.show_schema else "The database is open.")

    def _advance(self, action: str) -> TimeStep:
        action = _LABEL.sub("", code_command(action).rstrip("; \n"), count=1)
        try:
            if _SCHEMA.fullmatch(" ".join(plain(action).split())):
                return self._look(self._schema())
            if self.writes and plain(action) == "done" and "?" not in action:
                return self._submit(float(self.database.tables() == self.question.expected))
            if not self.writes and (answer := _ANSWER.fullmatch(action)):
                return self._answer(command(answer[1]).rstrip("; \n"))
            if _QUERY.match(action) or (self.writes and _CHANGE.match(action)):
                return self._look(self._run(action))
        except Refused as reason:
            return self._invalid(f"Error: {reason}.")
        return self._invalid(self._usage())

    def _usage(self) -> str:
        if self.writes:
            return "Reply with schema, a SELECT, INSERT, UPDATE or DELETE statement, or done."
        return "Reply with schema, a SELECT query, or answer followed by a SELECT query."

    def _run(self, statement: str) -> str:
        before = self.database.changes
        columns, rows = self.database.execute(statement)
        changed = self.database.changes - before
        if changed:
            self.state.changes.append(statement)
        return table_text(columns, rows) if columns else f"Rows changed: {changed}."

    def _answer(self, query: str) -> TimeStep:
        if not _QUERY.match(query):
            raise Refused("answer needs a SELECT query, such as answer SELECT COUNT(*) FROM ...")
        self.database.execute(query)
        expected = self.question.expected
        right = sum(self._matches(query, i, rows) for i, rows in enumerate(expected, start=1))
        return self._submit(right / len(expected))

    def _matches(self, query: str, content: int, expected: Multiset) -> bool:
        """Returns whether a query runs on a hidden database with the expected rows."""
        database = self._open(content)
        try:
            return as_multiset(database.execute(query)[1]) == expected
        except Refused:  # its reason would tell the agent about the hidden rows
            return False
        finally:
            database.close()

    def _submit(self, matched: float) -> TimeStep:
        self.state.matched, self.state.submitted = matched, True
        return self._look("Right." if matched == 1 else "Wrong.")

    def _schema(self) -> str:
        return "\n".join(world_of(self.task).schema.definitions())

    def _look(self, result: str) -> TimeStep:
        state = self.state
        done = state.submitted
        return TimeStep(
            text=f"{result}\n\n{'Change' if self.writes else 'Question'}: {self.question.text}",
            rewards={"task": float(done and state.matched == 1)},
            terminated=done,
            success=done and state.matched == 1,
            progress=state.matched,
            state_key=f"{self.task} {state.changes} {result}",
        )

    def expert(self) -> str | None:
        """Reads the schema and a table, then submits the reference statement."""
        question, changed = self.question, bool(self.state.changes)
        look = f"SELECT * FROM {question.tables[0]} LIMIT 3"
        if self._turn == 0:
            return "schema"
        if self._turn == 1:
            return look
        if not self.writes:
            return f"answer {question.sql}"
        return "done" if changed else question.sql


_RULES = (
    "- A missing value (NULL) fulfils no comparison and does not count in averages and totals, "
    "unless the request states otherwise.\n"
    "- Names may repeat. Different rows are different things.\n"
)
QUERY_INSTRUCTIONS = (
    "Answer a question about a SQLite database with one SQL query.\n"
    "Each turn, reply with one action and nothing else:\n"
    "- schema: show the tables and their columns.\n"
    "- SELECT city, COUNT(*) FROM shops GROUP BY city: run a query. At most 10 rows are shown.\n"
    "- answer SELECT COUNT(*) FROM shops: submit a query as your answer. This ends the episode.\n"
    "Rules:\n"
    f"{_RULES}"
    "- Return the columns in the order of the question. The order of rows does not matter.\n"
    "- Your query is tested on other databases with the same tables, so do not copy values from "
    "results.\n"
    "The reward is 1 if the submitted query returns the right rows on all of them."
)
CHANGE_INSTRUCTIONS = (
    "Change a SQLite database as requested.\n"
    "Each turn, reply with one action and nothing else:\n"
    "- schema: show the tables and their columns.\n"
    "- SELECT * FROM shops WHERE city = 'Rome': run a query. At most 10 rows are shown.\n"
    "- UPDATE shops SET rent = 10 WHERE city = 'Rome': change the database. INSERT and DELETE work "
    "too. There is no undo.\n"
    "- done: submit the database. This ends the episode.\n"
    "Rules:\n"
    f"{_RULES}"
    "- Change nothing else.\n"
    "The reward is 1 if all tables are right at the end."
)
