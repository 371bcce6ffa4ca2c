"""`AssignmentEnv`: questions and changes in a small world, handled with tools."""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

from agentgym.reading import (
    NotUnderstood,
    asserted,
    final_answer,
    find_numbers,
    normalized,
    parse_number,
    same_date,
)
from agentgym.tasks import Tasks
from agentgym.tools import Call, Tool, ToolEnv, ToolError, ToolState, tool

_COMPARED = re.compile(
    r"\b(?:than|least|most|over|under|above|below|between|except|without|before|after|or|half|twice)\b",
    re.IGNORECASE,
)
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_ARTICLE = re.compile("^(?:an?|the) ")


@dataclass(frozen=True)
class Assignment:
    """A generated task.

    Attributes:
        request: the request, shown to the agent.
        world: the initial world, JSON values that the tools may change.
        calls: the calls that solve it, without `finish`.
        answer: the expected answer. Entries of a list are separated by "; ". None: any.
    """

    request: str
    world: dict[str, Any]
    calls: tuple[Call, ...]
    answer: str | None = None

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """The calls as text."""
        return tuple(call.key for call in self.calls)


@dataclass(kw_only=True)
class WorldState(ToolState):
    """The world, the given answer, and the calls made so far."""

    world: dict[str, Any] = field(default_factory=dict)
    answer: str = ""
    made: list[str] = field(default_factory=list)


class AssignmentEnv(ToolEnv):
    """Base class of environments with assignments in a small world.

    The reward is 1 iff the final world is the one after the calls of the solution, and the answer
    given to `finish` is right. A subclass defines tools over `self.state.world`, and implements
    `assignment`.
    """

    plain_text = True
    State = WorldState
    state: WorldState

    def __init__(self, *, max_turns: int | None = 20, **kwargs):
        super().__init__(max_turns=max_turns, **kwargs)
        self.tasks = Tasks.generated()

    def assignment(self, task: str) -> Assignment:
        """Returns a task. The result is cached and must not be modified."""
        raise NotImplementedError

    def _begin(self, task: str) -> str:
        found = self.assignment(task)
        self.state = WorldState(world=copy.deepcopy(found.world))
        return found.request

    def read_call(self, action: str) -> Call | None:
        """Returns the call in an action, with the plain form of typographic characters."""
        call = super().read_call(action)
        if call is not None and call.name == "finish":
            call = Call(call.name, {key: _as_answer(each) for key, each in call.arguments.items()})
        if action.isascii() and "\\u" not in action:
            return call
        return call and Call(call.name, _plain(call.arguments))

    def _run(self, offered: Tool, arguments: dict[str, Any]) -> Any:
        result = super()._run(offered, arguments)
        call = Call(offered.name, arguments).key
        if call not in self.state.made:
            self.state.made.append(call)
        return result

    @tool(final=True)
    def finish(self, answer: str = "") -> str:
        """Ends the task.

        Args:
            answer: the answer to a question. Entries of a list are separated by ";".
        """
        self.state.answer = answer
        return "Finished."

    def _judge(self) -> float:
        found, given = self.assignment(self.task), self.state
        right = found.answer is None or same_answer(given.answer, found.answer)
        expected = self.expected_world(found)
        return float(right and self._compared(given.world) == self._compared(expected))

    def _changed(self) -> Any:
        return self.state.world

    def _compared(self, world: dict[str, Any]) -> dict[str, Any]:
        """Returns the parts of a world that the reward depends on."""
        return world

    def expected_world(self, found: Assignment) -> dict[str, Any]:
        """Returns the world of a task after the calls of its solution."""
        given = self.__dict__.get("state", WorldState())
        self.state = WorldState(world=copy.deepcopy(found.world))
        try:
            for call in found.calls:
                self.tools[call.name].function(self, **call.arguments)
            return self.state.world
        finally:
            self.state = given

    def _progress(self) -> float:
        keys = self.assignment(self.task).keys
        return sum(key in self.state.made for key in keys) / (len(keys) + 1)

    def _solve(self) -> Call:
        found = self.assignment(self.task)
        for call, key in zip(found.calls, found.keys, strict=True):
            if key not in self.state.made:
                return call
        return Call("finish", {} if found.answer is None else {"answer": found.answer})

    def _find(self, table: str, key: str) -> Any:
        """Returns an entry of a table of the world.

        Raises:
            ToolError: if there is none.
        """
        try:
            return self.state.world[table][key]
        except KeyError:
            raise ToolError(f"There is no {key[:60]!r} among the {table}.") from None


def same_answer(given: str, expected: str) -> bool:
    """Whether two answers are equal, apart from case, spaces, articles, order and rounding.

    Numbers and dates are compared by value. An answer with another number, a denial or a comparison
    is not the same.
    """
    value = parse_number(expected)
    if value is not None:
        found = _one_number(given)
        return found is not None and abs(found - value) < Fraction(1, 100)
    if _entries(given) == _entries(expected):
        return True
    claimed = " ".join(asserted(given))
    dated = _DATE.fullmatch(expected) is not None and not _COMPARED.search(given)
    return dated and same_date(given, expected) and same_date(claimed, expected)


def _one_number(text: str) -> Fraction | None:
    """Returns the number that an answer gives, or None if it gives none or several."""
    try:
        text = final_answer(text)
    except NotUnderstood:
        return None
    numbers = find_numbers(text)
    if len(numbers) != 1 or _COMPARED.search(text):
        return None
    return numbers[0].value if find_numbers(" ".join(asserted(text))) else None


def _entries(answer: str) -> list[str]:
    parts = normalized(answer).casefold().split(";")
    entries = (_ARTICLE.sub("", " ".join(part.split()).strip(" .'\"")) for part in parts)
    return sorted(str(parse_number(entry) or entry) for entry in entries)


def _as_answer(value: Any) -> Any:
    """Returns an answer that is a number, or a list of numbers and texts, as text."""
    if isinstance(value, list) and value and all(isinstance(_as_answer(v), str) for v in value):
        return "; ".join(map(_as_answer, value))
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return str(value) if number else value


def _plain(value: Any) -> Any:
    """Returns JSON values with typographic characters in their plain form."""
    if isinstance(value, str):
        return normalized(value)
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    return value
