"""Expressions of awk: fields, variables, calculations, functions."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from typing import Any

from agentgym.envs.shell.arguments import bounded
from agentgym.envs.shell.awk_reader import Node
from agentgym.envs.shell.awk_tokens import unescaped
from agentgym.envs.shell.formats import formatted
from agentgym.envs.shell.patterns import Pattern, Work
from agentgym.envs.shell.tree import Failed, Unknown

MOST_STEPS = 300_000
"""Number of expressions of a run."""
MOST_ITEMS = 20_000
MOST_PATTERNS = 100
MOST_STORED = 1_000_000
"""Number of characters in arrays."""
_NUMBER = re.compile(r"\s*[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne,
    ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


class Field(str):
    """A text of the input, which is a number in comparisons if it looks like one."""


Value = float | str | None
"""A number, a text, or None for an unset variable."""


class Values:
    """The current line and the variables of a program.

    Args:
        values: variables that are set at the start.
    """

    def __init__(self, values: dict[str, str]):
        self.values: dict[str, Value] = {
            "FS": " ", "OFS": " ", "ORS": "\n", "NR": 0.0, "FNR": 0.0, "NF": 0.0, "SUBSEP": "\x1c",
            "RSTART": 0.0, "RLENGTH": -1.0, "RS": "\n", "FILENAME": "",
            **{name: Field(value) for name, value in values.items()},
        }  # fmt: skip
        self.arrays: dict[str, dict[str, Value]] = {}
        self.fields: list[str] = []
        self.record = ""
        self.patterns: dict[str, Pattern] = {}
        self.work, self.stored = Work(), 0
        self.steps = 0

    def step(self, count: int = 1) -> None:
        """Counts steps."""
        self.steps += count
        if self.steps > MOST_STEPS:
            raise Unknown("the program takes too long")

    def set_record(self, text: str) -> None:
        """Makes a text the current line."""
        self.record = text
        self.fields = self.split(text, self.text(self.values["FS"]))
        self.values["NF"] = float(len(self.fields))

    def split(self, text: str, separator: str) -> list[str]:
        """Returns the fields of a text."""
        found = self._split(text, separator)
        self.step(len(found))
        return found

    def _split(self, text: str, separator: str) -> list[str]:
        if separator == " ":
            return text.split()
        if not text:
            return []
        if len(separator) <= 1:
            return text.split(separator) if separator else list(text)
        pattern, found, begin, place = self.pattern(separator), [], 0, 0
        while (match := pattern.search(text, place)) is not None:
            start, end = match
            if end > start:
                found.append(text[begin:start])
                begin = place = end
            else:
                place = start + 1
        return [*found, text[begin:]]

    def field(self, place: int) -> str:
        """Returns a field, or the line."""
        if place < 0:
            raise Failed("the number of a field is not negative")
        if place == 0:
            return Field(self.record)
        return Field(self.fields[place - 1]) if place <= len(self.fields) else Field("")

    def resize(self, size: int) -> None:
        """Sets the number of fields."""
        if not 0 <= size <= MOST_ITEMS:
            raise Failed("too many fields")
        self.step(size)
        self.fields = [*self.fields, *[""] * (size - len(self.fields))][:size]
        self.values["NF"] = float(size)
        self.record = bounded(self.text(self.values["OFS"]).join(self.fields))

    # Values.

    def number(self, value: Value) -> float:
        """Returns a value as a number."""
        if isinstance(value, float):
            return value
        match = _NUMBER.match(value[:100]) if isinstance(value, str) else None
        number = float(match[0]) if match else 0.0
        if not math.isfinite(number):
            raise Failed("the number is too large")
        return number

    def text(self, value: Value) -> str:
        """Returns a value as a text."""
        if value is None:
            return ""
        if isinstance(value, str):
            self.step(len(value) // 1000)
            return str(value)
        return str(int(value)) if value == int(value) else f"{value:.6g}"

    def true(self, value: Value) -> bool:
        """Whether a value counts as true."""
        if isinstance(value, Field) and _NUMBER.fullmatch(value.strip()):
            return self.number(value) != 0
        return bool(value)

    def pattern(self, source: str) -> Pattern:
        """Returns a compiled pattern."""
        if len(self.patterns) > MOST_PATTERNS:
            raise Failed("too many patterns")
        if source not in self.patterns:
            self.patterns[source] = Pattern(unescaped(source), extended=True, work=self.work)
        return self.patterns[source]

    def source(self, node: Node) -> str:
        """Returns the pattern that an expression means."""
        return node[1] if node[0] == "pattern" else self.text(self.value(node))

    def key(self, nodes: list[Node]) -> str:
        """Returns the key of an element of an array."""
        return self.text(self.values["SUBSEP"]).join(self.text(self.value(n)) for n in nodes)

    def set(self, place: Node, value: Value) -> Value:
        """Sets a variable, an element or a field."""
        if place[0] == "variable":
            if place[1] in self.arrays:
                raise Failed(f"{place[1]} is an array")
            self.values[place[1]] = value
            if place[1] == "NF":
                self.resize(int(self.number(value)))
        elif place[0] == "element":
            array = self.arrays.setdefault(place[1], {})
            key = self.key(place[2])
            self.stored += len(self.text(value)) - len(self.text(array.get(key)))
            array[key] = value
            if len(array) > MOST_ITEMS or self.stored > MOST_STORED:
                raise Failed("too many elements")
        else:
            number, text = int(self.number(self.value(place[1]))), self.text(value)
            if number == 0:
                self.set_record(text)
            else:
                self.field(number)
                self.resize(max(number, len(self.fields)))
                self.fields[number - 1] = text
                self.resize(len(self.fields))
        return value

    def value(self, node: Node) -> Value:
        """Returns the value of an expression."""
        self.step()
        return getattr(self, f"_{node[0]}")(*node[1:])

    def _constant(self, value: Value) -> Value:
        return value

    def _group(self, parts: list[Node]) -> Value:
        if len(parts) > 1:
            raise Unknown("a list in parentheses is not supported here in awk")
        return self.value(parts[0])

    def _pattern(self, source: str) -> Value:
        return float(self.pattern(source).search(self.record) is not None)

    def _variable(self, name: str) -> Value:
        return self.values.get(name)

    def _element(self, name: str, keys: list[Node]) -> Value:
        return self.arrays.setdefault(name, {}).setdefault(self.key(keys), None)

    def _field(self, place: Node) -> Value:
        return self.field(int(self.number(self.value(place))))

    def _assign(self, kind: str, place: Node, node: Node) -> Value:
        value = self.value(node)
        if kind:
            value = self._result(kind, self.value(place), value)
        return self.set(place, value)

    def _choose(self, condition: Node, first: Node, second: Node) -> Value:
        return self.value(first if self.true(self.value(condition)) else second)

    def _or(self, first: Node, second: Node) -> Value:
        return float(self.true(self.value(first)) or self.true(self.value(second)))

    def _and(self, first: Node, second: Node) -> Value:
        return float(self.true(self.value(first)) and self.true(self.value(second)))

    def _not(self, _: str, node: Node) -> Value:
        return float(not self.true(self.value(node)))

    def _sign(self, kind: str, node: Node) -> Value:
        value = self.number(self.value(node))
        return 0.0 - value if kind == "-" else value

    def _in(self, keys: list[Node], name: str) -> Value:
        return float(self.key(keys) in self.arrays.get(name, {}))

    def _match(self, wanted: bool, node: Node, pattern: Node) -> Value:
        text = self.text(self.value(node))
        return float((self.pattern(self.source(pattern)).search(text) is not None) == wanted)

    def _compare(self, kind: str, first: Node, second: Node) -> Value:
        left, right = self.value(first), self.value(second)
        numbers = all(
            value is None
            or isinstance(value, float)
            or (isinstance(value, Field) and _NUMBER.fullmatch(value.strip()) is not None)
            for value in (left, right)
        )
        change: Callable[[Value], float | str] = self.number if numbers else self.text
        return float(_COMPARISONS[kind](change(left), change(right)))

    def _join(self, first: Node, second: Node) -> Value:
        return bounded(self.text(self.value(first)) + self.text(self.value(second)))

    def _calculate(self, kind: str, first: Node, second: Node) -> Value:
        return self._result(kind, self.value(first), self.value(second))

    def _result(self, kind: str, left: Value, right: Value) -> float:
        first, second = self.number(left), self.number(right)
        try:
            match kind:
                case "+":
                    result = first + second
                case "-":
                    result = first - second
                case "*":
                    result = first * second
                case "/":
                    result = first / second
                case "%":
                    result = math.fmod(first, second)
                case _:
                    result = float(first**second)
        except (ZeroDivisionError, ValueError):
            raise Failed("division by zero") from None
        except (OverflowError, TypeError):
            result = math.inf
        if not math.isfinite(result):
            raise Failed("the number is too large")
        return result

    def _step(self, step: int, before: bool, place: Node) -> Value:
        old = self.number(self.value(place))
        self.set(place, old + step)
        return old + step if before else old

    def _call(self, name: str, parts: list[Node]) -> Value:
        if name in ("split", "sub", "gsub", "match", "length"):
            return getattr(self, f"_call_{name}")(*parts)
        values = [self.value(part) for part in parts]
        first = values[0]
        if name == "int":
            return float(int(self.number(first)))
        if name == "sqrt":
            return math.sqrt(max(0.0, self.number(first)))
        text = self.text(first)
        if name == "sprintf":
            return formatted(text, values[1:], self.number, self.text)
        if name == "index":
            return float(text.find(self.text(values[1])) + 1)
        if name != "substr":
            return text.lower() if name == "tolower" else text.upper()
        start = _rounded(self.number(values[1]))
        size = (
            _rounded(self.number(values[2])) if len(values) > 2 else len(text) + 1 - min(start, 0)
        )
        return text[max(0, start - 1) : max(0, start - 1 + size)]

    def _call_length(self, node: Node | None = None) -> Value:
        if node is not None and node[0] == "variable" and node[1] in self.arrays:
            return float(len(self.arrays[node[1]]))
        return float(len(self.record if node is None else self.text(self.value(node))))

    def _call_split(self, node: Node, array: Node, separator: Node | None = None) -> Value:
        if array[0] != "variable":
            raise Unknown("split needs an array")
        text = self.text(self.value(node))
        mark = self.text(self.values["FS"]) if separator is None else self.source(separator)
        if separator is not None and separator[0] == "pattern" and len(mark) == 1:
            mark = f"[{mark}]" if mark not in "^]" else f"\\{mark}"
        parts = self.split(text, mark)
        self.arrays[array[1]] = {str(i): Field(part) for i, part in enumerate(parts, start=1)}
        return float(len(parts))

    def _call_match(self, node: Node, pattern: Node) -> Value:
        match = self.pattern(self.source(pattern)).search(self.text(self.value(node)))
        start, end = match or (-1, -2)
        self.values["RSTART"], self.values["RLENGTH"] = float(start + 1), float(end - start)
        return float(start + 1)

    def _call_sub(self, pattern: Node, new: Node, place: Node | None = None) -> Value:
        return self._substitute(pattern, new, place, every=False)

    def _call_gsub(self, pattern: Node, new: Node, place: Node | None = None) -> Value:
        return self._substitute(pattern, new, place, every=True)

    def _substitute(self, pattern: Node, new: Node, place: Node | None, *, every: bool) -> Value:
        place = place or ("field", ("constant", 0.0))
        if place[0] not in ("variable", "element", "field"):
            raise Unknown("sub and gsub need a variable in awk")
        compiled, insert = self.pattern(self.source(pattern)), self.text(self.value(new))
        text = self.text(self.value(place))

        def inserted(match: tuple[int, int]) -> str:
            return re.sub(r"\\(&|\\)|&", lambda m: m[1] or text[slice(*match)], insert)

        done, count = compiled.replaced(text, inserted, every=every)
        if count:
            self.set(place, done)
        return float(count)


def _rounded(number: float) -> int:
    return math.floor(number + 0.5)
