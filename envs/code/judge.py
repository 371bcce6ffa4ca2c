"""Runs calls of an untrusted program and compares their results.

Expected results never enter the sandbox, and results leave it as JSON, so that a program can
neither read nor forge a verdict. It can only print results of its own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentgym.sandbox import Interpreter, Limits, run_program

SUBSET = (
    "- A subset of Python runs your code: functions, loops, comprehensions, exceptions and simple "
    "classes, with the modules math, re, json, itertools, functools and collections. There are no "
    "generators with yield, no del and no inheritance.\n"
)
"""Description of the interpreter "monty" for instructions."""
LIMITED = "- There are no files and no network. Time and memory are limited.\n"
_MARK = "@@result "
_LIMITS = Limits(output=50_000)
_CALL = """
try:
    print({mark!r} + _json.dumps({call}))
except Exception as _error:
    print({mark!r} + "!" + type(_error).__name__ + ": " + str(_error))
"""


@dataclass(frozen=True)
class Call:
    """A call, such as "solve([1, 2])", and its expected result, a JSON value."""

    text: str
    expected: Any


@dataclass(frozen=True)
class Verdict:
    """The verdict on a call: whether the result is right, and the result or error as text."""

    right: bool
    shown: str


def judge(
    program: str,
    calls: Sequence[Call],
    *,
    interpreter: Interpreter,
    files: Mapping[str, str] | None = None,
) -> tuple[list[Verdict], str]:
    """Runs a program and the calls after it.

    Returns:
        A verdict per call, and the text that the program printed, with its error if it failed.
    """
    tests = "".join(_CALL.format(mark=_MARK, call=call.text) for call in calls)
    whole = f"{program}\nimport json as _json\n{tests}"
    outcome = run_program(whole, interpreter=interpreter, files=files, limits=_LIMITS)
    lines = outcome.output.splitlines()
    results = [line.removeprefix(_MARK) for line in lines if line.startswith(_MARK)]
    printed = [line for line in lines if not line.startswith(_MARK)]
    missing = outcome.error.strip().rpartition("\n")[2] or "no result"
    results += [f"!{missing}"] * (len(calls) - len(results))
    verdicts = [_verdict(call, result) for call, result in zip(calls, results, strict=False)]
    return verdicts, "\n".join((*printed, *outcome.error.strip().splitlines()))


def _verdict(call: Call, result: str) -> Verdict:
    if result.startswith("!"):
        return Verdict(False, result[1:])
    try:
        value = json.loads(result)
        return Verdict(same_value(value, json.loads(json.dumps(call.expected))), repr(value))
    except (ValueError, RecursionError):
        return Verdict(False, result)


def same_value(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal. Numbers are compared by value: 2.0 is 2, True is not 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same_value, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same_value(one[key], other[key]) for key in one)
    return one == other or (one != one and other != other)  # NaN


def shown(text: str, limit: int) -> str:
    """Returns a text, shortened in the middle if it is longer than `limit`."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]} ... {text[-half:]}"
