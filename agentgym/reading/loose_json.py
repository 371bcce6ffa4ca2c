"""JSON as models write it: with the usual slips whose meaning is clear, and none that guess.

Read are trailing commas, quotes of Python and of typography, True, False and None, unescaped line
ends in strings and names as keys without quotes. Refused are keys that are given twice, unknown
escapes, missing commas and brackets, and quotes inside a string of the same quotes.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from typing import Any

from agentgym.reading.errors import NotUnderstood
from agentgym.reading.typography import normalized

MAX_DEPTH = 40
"""Maximum number of levels of lists and objects."""
_SPACE = re.compile("[\\s\u200b\u2060\ufeff]{0,100000}")
_NUMBER = re.compile(
    r"[-+\u2212\u2013]?(?:\d{1,1000}(?:\.\d{0,100})?|\.\d{1,100})(?:[eE][-+]?\d{1,3})?"
)
_NAME = re.compile(r"[A-Za-z_][\w-]{0,100}")
_CONSTANTS: dict[str, Any] = {
    "true": True, "True": True, "false": False, "False": False, "null": None, "None": None,
}  # fmt: skip
_DOUBLE, _SINGLE = '"“”„‟«»＂', "'‘’‚‛‹›＇"
_ENDS = {
    **{quote: frozenset(_DOUBLE) for quote in _DOUBLE}, '"': frozenset('"'),
    **{quote: frozenset(_SINGLE) for quote in _SINGLE}, "'": frozenset("'"),
}  # fmt: skip
_PLAIN = {
    ends: re.compile(f"[^\\\\{re.escape(''.join(sorted(ends)))}]+") for ends in set(_ENDS.values())
}
_ESCAPES = {
    '"': '"', "'": "'", "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t",
}  # fmt: skip
_HEX = re.compile("[0-9a-fA-F]{4}")
_PYTHON_CODE = re.compile("x([0-9a-fA-F]{2})|U([0-9a-fA-F]{8})")
_LOW = re.compile(r"\\u([dD][c-fC-F][0-9a-fA-F]{2})")
_MARKS = re.compile(r'"(?:\\.|[^"\\]){0,100000}"|[{}]', re.DOTALL)


def read_json(text: str, start: int = 0) -> tuple[Any, int]:
    """Returns the JSON value at an index of a text, and the index after it.

    Raises:
        NotUnderstood: with the reason, a part of a sentence, if there is no value.
    """
    try:
        return _STRICT.raw_decode(text, start)
    except (ValueError, RecursionError):
        return _LooseReader(text, start).read()


def object_stop(text: str, start: int) -> int:
    """Returns the index after the bracket that closes an object, readable or not.

    It is the end of the text if none closes it.
    """
    depth = 0
    for match in _MARKS.finditer(text, start):
        depth += {"{": 1, "}": -1}.get(match[0], 0)
        if depth <= 0 and match[0] == "}":
            return match.end()
    return len(text)


def too_deep(value: Any, most: int) -> bool:
    """Whether lists and objects are nested in more than a number of levels."""
    level = [value]
    for _ in range(most):
        level = [v for x in level if isinstance(x, dict | list) for v in _entries(x)]
        if not level:
            return False
    return True


def _entries(value: dict[str, Any] | list[Any]) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is given twice")
    return found


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON value")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{digits[:20]} is too large for a number")
    return number


_STRICT = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse, parse_float=_finite)


def strict_json(data: str | bytes) -> Any:
    """Returns the value of a JSON text whose numbers are all finite.

    Raises:
        ValueError: if it is none, such as one with NaN or 1e999, which no other text of JSON can
            hold.
        RecursionError: if it is nested too deeply.
    """
    return json.loads(data, parse_constant=_refuse, parse_float=_finite)


class _LooseReader:
    """Reads one value by recursive descent, in linear time."""

    def __init__(self, text: str, start: int):
        self.text, self.at, self.depth = text, start, 0

    def read(self) -> tuple[Any, int]:
        value = self._value()
        return value, self.at

    def _skip(self) -> str:
        """Skips white space and returns the next character, or "" at the end."""
        space = _SPACE.match(self.text, self.at)
        self.at = space.end() if space else self.at
        return self.text[self.at : self.at + 1]

    def _value(self) -> Any:
        mark = self._skip()
        if mark in ("{", "["):
            self.depth += 1
            if self.depth > MAX_DEPTH:
                raise NotUnderstood("it is nested too deeply")
            value = self._object() if mark == "{" else self._array()
            self.depth -= 1
            return value
        if mark and mark in _ENDS:
            return self._string()
        if number := _NUMBER.match(self.text, self.at):
            return self._number(number)
        if name := _NAME.match(self.text, self.at):
            if name[0] in _CONSTANTS:
                self.at = name.end()
                return _CONSTANTS[name[0]]
        raise NotUnderstood(f"Expecting value at {self._here()}")

    def _here(self) -> str:
        return repr(self.text[self.at : self.at + 20]) if self.at < len(self.text) else "the end"

    def _number(self, number: re.Match[str]) -> int | float:
        self.at = number.end()
        digits = normalized(number[0]).lstrip("+")
        whole = digits.lstrip("-")
        if len(whole) > 1 and whole[0] == "0" and whole[1].isdigit():
            raise NotUnderstood(f"{digits[:20]} has a leading zero")
        if self.text[self.at : self.at + 1].isalnum() or self.text[self.at : self.at + 1] == "_":
            raise NotUnderstood(f"Expecting ',' delimiter at {self._here()}")
        try:
            return int(digits) if whole.isdigit() else _finite(digits)
        except (ValueError, OverflowError):
            raise NotUnderstood(f"{digits[:20]} is no number") from None

    def _string(self) -> str:
        ends = _ENDS[self.text[self.at]]
        pieces, at = [], self.at + 1
        while True:
            if plain := _PLAIN[ends].match(self.text, at):
                pieces.append(plain[0])
                at = plain.end()
            mark = self.text[at : at + 1]
            if not mark:
                raise NotUnderstood("Unterminated string")
            if mark in ends:
                break
            piece, at = self._escape(at + 1)
            pieces.append(piece)
        self.at = at + 1
        return "".join(pieces)

    def _escape(self, at: int) -> tuple[str, int]:
        mark = self.text[at : at + 1]
        if mark == "u" and (code := _HEX.match(self.text, at + 1)):
            unit, at = int(code[0], 16), code.end()
            low = _LOW.match(self.text, at) if 0xD800 <= unit < 0xDC00 else None
            if low:  # a pair of UTF-16
                return chr(0x10000 + ((unit & 0x3FF) << 10) + (int(low[1], 16) & 0x3FF)), low.end()
            return chr(unit), at
        if code := _PYTHON_CODE.match(self.text, at):
            if int(code[1] or code[2], 16) < 0x110000:
                return chr(int(code[1] or code[2], 16)), code.end()
        if mark not in _ESCAPES or not mark:
            raise NotUnderstood(f"Invalid \\escape: \\{mark}")
        return _ESCAPES[mark], at + 1

    def _array(self) -> list[Any]:
        self.at += 1
        found: list[Any] = []
        while True:
            if self._skip() == "]":
                self.at += 1
                return found
            found.append(self._value())
            self._comma("]")

    def _object(self) -> dict[str, Any]:
        self.at += 1
        found: dict[str, Any] = {}
        while True:
            if self._skip() == "}":
                self.at += 1
                return found
            key = self._key()
            if key in found:
                raise NotUnderstood(f"the key {key[:40]!r} is given twice")
            if self._skip() not in (":", "：", "∶"):
                raise NotUnderstood(f"Expecting ':' delimiter at {self._here()}")
            self.at += 1
            found[key] = self._value()
            self._comma("}")

    def _key(self) -> str:
        if self._skip() and self.text[self.at] in _ENDS:
            return self._string()
        if name := _NAME.match(self.text, self.at):
            self.at = name.end()
            return name[0]
        raise NotUnderstood(f"Expecting property name enclosed in double quotes at {self._here()}")

    def _comma(self, end: str) -> None:
        """Skips a comma. A single one may stand before the end."""
        mark = self._skip()
        if mark in (",", "，"):
            self.at += 1
            if self._skip() in (",", "，"):
                raise NotUnderstood("Expecting value between two commas")
        elif mark != end:
            raise NotUnderstood(f"Expecting ',' delimiter at {self._here()}")
