"""Programs, sessions and their outcomes. Outcomes are cached, because they are deterministic."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from agentgym.errors import ConfigError, MissingExtraError, SandboxError
from agentgym.sandbox.client import Reply, ask
from agentgym.utils.recent import Recent

Interpreter = Literal["monty", "cpython"]
"""The interpreters of untrusted programs."""
PACKAGES = {"monty": "pydantic_monty", "cpython": "sandlock"}
"""Import name of the package of each interpreter."""
LONGEST = 100_000
"""Maximum number of characters of a program and its files."""
_CACHED = 64 << 20
_PROBE = """
import os, socket
for act in (lambda: os.listdir("/"), os.fork, lambda: open("/etc/passwd"),
            lambda: socket.create_connection(("127.0.0.1", 9), 1)):
    try:
        act()
    except (PermissionError, BlockingIOError):
        print("denied")
"""
Function = Callable[[list[Any], dict[str, Any]], Any]
"""A function that programs can call, with positional and named arguments. Values are JSON."""


@dataclass(frozen=True)
class Limits:
    """Limits of a program.

    Attributes:
        seconds: CPU time. Monty measures elapsed time, which is longer on a loaded machine. A
            program of CPython that sleeps ends after five times as many seconds.
        memory: bytes of memory.
        output: number of characters of its output. The rest is cut.
    """

    seconds: int = 2
    memory: int = 128 << 20
    output: int = 10_000


@dataclass(frozen=True)
class Outcome:
    """The result of a program.

    Attributes:
        output: the printed text.
        error: the traceback of the error that ended the program, or "".
        stopped: the limit that the program exceeded ("time", "memory", "output"), "crash" if the
            interpreter was killed, or "".
    """

    output: str
    error: str = ""
    stopped: str = ""

    @property
    def text(self) -> str:
        """The output, followed by the error if any."""
        return "\n".join(part for part in (self.output.rstrip("\n"), self.error.strip()) if part)


@dataclass(frozen=True)
class Cell:
    """A program of a session.

    Attributes:
        code: the program.
        answers: the answers to its calls of the caller's functions, as JSON.
        functions: the names of these functions.
    """

    code: str
    answers: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()


_outcomes: Recent[Outcome] = Recent(_CACHED)
_sessions: Recent[tuple[Outcome, str]] = Recent(_CACHED)


@cache
def check_sandbox(interpreter: Interpreter) -> None:
    """Checks that a sandbox is available, and that the one of CPython denies access.

    Raises:
        MissingExtraError: if the package of the interpreter is not installed.
        SandboxError: if it does not work on this system.
    """
    package = PACKAGES[interpreter]
    if importlib.util.find_spec(package) is None:
        raise MissingExtraError(f"The interpreter {interpreter!r}", "code", package)
    reason = ask({"do": "check", "kind": interpreter})["reason"]
    if not reason and interpreter == "cpython":
        outcome = _run("cpython", _PROBE, {}, Limits())
        if outcome.output.split() != ["denied"] * 4:
            reason = f"the sandbox does not confine programs here: {outcome.text!r:.300}"
    if reason:
        raise SandboxError(
            f"No sandbox is available for the interpreter {interpreter!r}: {reason}. Programs of "
            "agents never run without one."
        )


def run_program(
    code: str,
    *,
    interpreter: Interpreter = "monty",
    files: Mapping[str, str] | None = None,
    limits: Limits | None = None,
) -> Outcome:
    """Runs an untrusted program.

    The outcome depends only on the arguments, except for programs that take about as long as the
    limit of time or that print the time of the clock.

    Args:
        code: the program.
        interpreter: the interpreter.
        files: modules that the program can import, by file name, such as {"stock.py": "..."}. Only
            for "cpython".
        limits: the limits.

    Raises:
        ConfigError: for files with "monty".
        MissingExtraError: if the package of the interpreter is not installed.
        SandboxError: if no sandbox is available.
    """
    check_sandbox(interpreter)
    files, limits = dict(files or {}), limits or Limits()
    if files and interpreter != "cpython":
        raise ConfigError(f"files need the interpreter 'cpython', got {interpreter!r}.")
    if len(code) + sum(map(len, files.values())) > LONGEST:
        return Outcome("", f"A program must have at most {LONGEST:,} characters", "memory")
    key = interpreter, code, tuple(sorted(files.items())), limits
    outcome = _outcomes.get(key)
    if outcome is None:
        outcome = _run(interpreter, code, files, limits)
        _outcomes.put(key, outcome, len(code) + len(outcome.text) + 500)
    return outcome


def _run(kind: Interpreter, code: str, files: dict[str, str], limits: Limits) -> Outcome:
    request = {"do": kind, "code": code, "files": files, "state": "", "keep": False}
    request |= {"functions": (), "answers": ()}
    return _outcome(ask({**request, **dataclasses.asdict(limits)}))


def run_cell(cells: tuple[str, ...], *, limits: Limits | None = None) -> Outcome:
    """Runs the last of several cells of a Monty session, after the cells before it.

    A session is the list of its cells, which is exact and can be saved as text. The state after the
    cells before the last is cached, so that usually only the last cell runs. A cell that exceeds a
    limit restarts the interpreter: the variables are lost.

    Args:
        cells: the programs in order, at least one.
        limits: the limits of each cell.

    Raises:
        MissingExtraError: if `pydantic-monty` is not installed.
        SandboxError: if it does not work on this system.
    """
    check_sandbox("monty")
    return _session(tuple(Cell(code) for code in cells), limits or Limits())[0]


def run_calls(
    before: tuple[Cell, ...],
    code: str,
    functions: Mapping[str, Function],
    *,
    limits: Limits | None = None,
) -> tuple[Outcome, Cell]:
    """Runs a cell that calls functions of the caller, after the cells before it.

    Args:
        before: the earlier cells of the session, with the answers to their calls.
        code: the program of the new cell.
        functions: the functions by name, each called with a list of positional and a dictionary of
            named arguments. A `ValueError` is an error of the program, with its message.
        limits: the limits of each cell.

    Returns:
        The outcome, and the cell with the answers to its calls.

    Raises:
        MissingExtraError: if `pydantic-monty` is not installed.
        SandboxError: if it does not work on this system.
    """
    check_sandbox("monty")
    limits = limits or Limits()
    answers: list[str] = []

    def reply(call: dict[str, Any]) -> dict[str, Any]:
        try:
            answer = {"value": functions[call["call"]](call["args"], call["kwargs"])}
        except ValueError as error:
            answer = {"error": str(error)}
        answers.append(json.dumps(answer))
        return answer

    state = _session(before, limits)[1]
    outcome, state = _feed(Cell(code), state, limits, (*functions,), reply)
    cell = Cell(code, tuple(answers), (*functions,))
    _remember((*before, cell), limits, outcome, state)
    return outcome, cell


def _session(cells: tuple[Cell, ...], limits: Limits) -> tuple[Outcome, str]:
    """Returns the outcome of the last cell and the state after it."""
    known, found = len(cells), _sessions.get((cells, limits))
    while found is None and known > 1:
        known -= 1
        found = _sessions.get((cells[:known], limits))
    if found is None:
        known, found = 0, (Outcome(""), "")
    outcome, state = found
    for count in range(known + 1, len(cells) + 1):
        cell = cells[count - 1]
        outcome, state = _feed(cell, state, limits, cell.functions, _unrecorded)
        _remember(cells[:count], limits, outcome, state)
    return outcome, state


def _unrecorded(call: dict[str, Any]) -> dict[str, Any]:
    return {"error": "There is no recorded answer to this call."}


def _remember(cells: tuple[Cell, ...], limits: Limits, outcome: Outcome, state: str) -> None:
    size = sum(len(cell.code) + sum(map(len, cell.answers)) for cell in cells)
    size += len(outcome.text) + len(state) + 500
    _sessions.put((cells, limits), (outcome, state), size)


def _feed(
    cell: Cell, state: str, limits: Limits, functions: tuple[str, ...], reply: Reply
) -> tuple[Outcome, str]:
    if len(cell.code) > LONGEST:
        return Outcome("", f"A cell must have at most {LONGEST:,} characters", "memory"), ""
    request = {"do": "monty", "code": cell.code, "state": state, "keep": True}
    request |= {"functions": functions, "answers": cell.answers, **dataclasses.asdict(limits)}
    answer = ask(request, reply)
    return _outcome(answer), answer["state"]


def _outcome(answer: dict[str, Any]) -> Outcome:
    return Outcome(answer["output"], answer["error"], answer["stopped"])
