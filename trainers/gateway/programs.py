"""Programs of users that play episodes: a command, a function of a module, or a function.

A command is a process per episode. A function of a module runs in processes that are used again,
because imports of agent libraries take seconds. A function that is given as an object runs in
threads of the trainer.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from agentgym.errors import ConfigError
from agentgym.time_limits import BoundedCalls, CallTimeout
from agentgym.trainers.gateway.kept_connections import can_be_read
from agentgym.trainers.gateway.processes import Groups
from agentgym.trainers.gateway.task import Task
from agentgym.utils.returned_numbers import as_number, finite_number

Score = float | Mapping[str, float]
"""A number, or numbers by name."""
_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_IMPORT = 600.0
"""Seconds in which the module of a function must be imported."""
_LONGEST = 1 << 20
"""Bytes of the result of a function in another process."""


@dataclass(frozen=True)
class Outcome:
    """The end of a program.

    Attributes:
        score: the number that a function returned, or its numbers by name. None: none.
        output: the end of its output.
        error: description of its failure, "" without one.
        timed_out: whether its time was up.
    """

    score: Score | None = None
    output: str = ""
    error: str = ""
    timed_out: bool = False


class Program(Protocol):
    """A program that plays episodes, several at once in different threads."""

    def run(self, task: Task) -> Outcome:
        """Plays an episode and returns when all that it started has ended."""
        ...

    def close(self) -> None:
        """Ends all episodes in progress."""
        ...


def program_of(harness: str | Callable[..., Any], seconds: float | None = None) -> Program:
    """Returns the program that a setting names.

    Args:
        harness: a command, "module:function", or a function of a `Task`.
        seconds: time limit of an episode. None: no limit.

    Raises:
        ConfigError: if there is no such program.
    """
    if callable(harness):
        return FunctionProgram(harness, seconds)
    if _FUNCTION.fullmatch(harness):
        return ModuleProgram(harness, seconds)
    return CommandProgram(harness, seconds)


def check_program(harness: str | Callable[..., Any]) -> None:
    """Finds out before any episode that there is no such program, or its module does not import.

    The module is imported as in episodes: in a process of its own, with all variables of a task.

    Raises:
        ConfigError: if there is no such program.
    """
    program = program_of(harness)
    try:
        if isinstance(program, ModuleProgram):
            program.check()
    finally:
        program.close()


def name_of(harness: str | Callable[..., Any]) -> str:
    """Returns the name of a program for logs and settings."""
    if isinstance(harness, str):
        return harness
    named = getattr(harness, "__qualname__", type(harness).__qualname__)
    return f"{getattr(harness, '__module__', '')}:{named}"


def as_score(value: Any) -> Score | None:
    """Returns the score that a function returned. None, and all that is no number, is no score.

    Raises:
        ValueError: if a number is not finite.
    """
    value = scalar(value)
    if isinstance(value, Mapping) and value:
        numbers = {str(name): scalar(each) for name, each in value.items()}
        if all(as_number(each) is not None for each in numbers.values()):
            return {name: finite(each) for name, each in numbers.items()}
        return None
    return None if as_number(value) is None else finite(value)


def scalar(value: Any) -> Any:
    """Returns the number of a scalar of NumPy or PyTorch, and any other value as it is."""
    return value.item() if getattr(value, "ndim", None) == 0 else value


def finite(value: Any) -> float:
    """Returns a number as a float.

    Raises:
        ValueError: if it is not finite.
    """
    number = finite_number(value)
    if number is None:
        raise ValueError(f"A score must be finite, got {value!r:.80}.")
    return number


def call(function: Callable[[Task], Any], task: Task) -> Any:
    """Returns the result of a function or a coroutine function."""
    found = function(task)
    return asyncio.run(_result(found)) if inspect.isawaitable(found) else found


async def _result(found: Any) -> Any:
    return await found


class CommandProgram:
    """A command, started for each episode in an empty folder of its own.

    Words of the command that name files are made absolute, and modules of the current folder can be
    imported.

    Args:
        command: the command, as in a shell, without pipes.
        seconds: time limit of an episode. None: no limit.

    Raises:
        ConfigError: if it is empty, or its program does not exist.
    """

    def __init__(self, command: str, seconds: float | None = None):
        try:
            words = shlex.split(command)
        except ValueError as error:
            raise ConfigError(f"The command {command!r} cannot be read: {error}.") from None
        if not words:
            raise ConfigError("harness is an empty command: give one such as 'python my_agent.py'.")
        # Not resolved: the Python of a virtual environment is a link.
        self._words = [str(Path(word).absolute()) if _is_file(word) else word for word in words]
        if words[0] in ("python", "python3"):
            self._words[0] = sys.executable
        self._seconds, self._groups = seconds, Groups()
        if shutil.which(self._words[0]) is None:
            raise ConfigError(
                f"harness = {command!r}: there is no program {words[0]!r}. Give a command such as "
                "'python my_agent.py', or a function as my_module:my_function."
            )
        script = Path(words[1]) if self._words[0] == sys.executable and words[1:] else None
        if script is not None and script.suffix == ".py" and not script.exists():
            raise ConfigError(f"harness = {command!r}: there is no file {words[1]!r}.")

    def run(self, task: Task) -> Outcome:
        """Runs the command."""
        with tempfile.TemporaryDirectory(prefix="agentgym-", ignore_cleanup_errors=True) as folder:
            environ = task.environ([Path.cwd()], Path(folder)) | {"TMPDIR": folder}
            process, tail = self._groups.start(self._words, environ, Path(folder))
            timed_out = False
            try:
                process.wait(self._seconds)
            except subprocess.TimeoutExpired:
                timed_out = True
            finally:
                self._groups.end(process)
        output, code, error = tail.text(), process.returncode, ""
        tail.close()
        if code and not timed_out:
            error = f"The program ended with exit code {code}. The end of its output:\n{output}"
        return Outcome(None, output, error, timed_out)

    def close(self) -> None:
        """Kills all processes."""
        self._groups.close()


def _is_file(word: str) -> bool:
    return (os.sep in word or "." in word) and Path(word).exists()


class FunctionProgram:
    """A function of a `Task`, or a coroutine function, in threads of this process.

    A call that takes too long is left to itself: its requests are refused.

    Args:
        function: the function. A number that it returns is the score.
        seconds: time limit of an episode. None: no limit.
    """

    def __init__(self, function: Callable[[Task], Any], seconds: float | None = None):
        self._function, self._seconds = function, seconds

    def run(self, task: Task) -> Outcome:
        """Calls the function."""
        try:
            return Outcome(as_score(self._call(task)))
        except CallTimeout:
            return Outcome(timed_out=True)
        except Exception as error:
            return Outcome(error=f"The function raised {error!r:.2000}")

    def _call(self, task: Task) -> Any:
        if self._seconds is None:
            return call(self._function, task)
        calls = BoundedCalls(self._seconds)
        try:
            return calls(lambda: call(self._function, task))
        finally:
            calls.close()

    def close(self) -> None:
        """Does nothing: requests of the functions are refused."""


class ModuleProgram:
    """A function of a module, in processes that are used again.

    Args:
        name: the function as "module:function".
        seconds: time limit of an episode. None: no limit.
    """

    def __init__(self, name: str, seconds: float | None = None):
        self.name, self._seconds = name, seconds
        self._groups, self._lock = Groups(), threading.Lock()
        self._idle: list[_Worker] = []

    def check(self) -> None:
        """Imports the function in a process.

        Raises:
            ConfigError: if there is none.
        """
        worker = _Worker(self.name, self._groups, Task("", "", 0, url="http://127.0.0.1", key="-"))
        try:
            outcome = worker.ask(None, _IMPORT)
        finally:  # also after Ctrl-C
            worker.close()
        if outcome.timed_out:
            raise ConfigError(f"harness = {self.name!r} is not imported after {_IMPORT:g} s.")
        if outcome.error:
            raise ConfigError(outcome.error)

    def run(self, task: Task) -> Outcome:
        """Calls the function in a process."""
        with self._lock:
            worker = self._idle.pop() if self._idle else None
        if worker is None:
            worker = _Worker(self.name, self._groups, task)
        outcome = worker.ask(task, self._seconds)
        if worker.alive and not outcome.timed_out:
            with self._lock:
                self._idle.append(worker)
        else:
            worker.close()
        return outcome

    def close(self) -> None:
        """Kills all processes."""
        self._groups.close()
        with self._lock:
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.close()


class _Worker:
    """A process that runs `python -m agentgym.trainers.gateway.worker`."""

    def __init__(self, name: str, groups: Groups, task: Task):
        self._groups = groups
        self._folder = tempfile.TemporaryDirectory(prefix="agentgym-", ignore_cleanup_errors=True)
        self._answers, own = os.pipe()
        words = [sys.executable, "-m", "agentgym.trainers.gateway.worker", name, str(own)]
        place = Path(self._folder.name)
        environ = task.environ([Path.cwd(), _home()], place) | {"TMPDIR": str(place)}
        try:
            self._process, self._tail = groups.start(words, environ, place, subprocess.PIPE, (own,))
        finally:
            os.close(own)
        self._read = b""

    @property
    def alive(self) -> bool:
        """Whether the process has not ended."""
        return self._process.poll() is None

    def ask(self, task: Task | None, seconds: float | None) -> Outcome:
        """Returns the outcome of an episode. None: only imports the function."""
        assert self._process.stdin is not None
        self._tail.take()
        asked = json.dumps(task and {"task": task.to_json(), "key": task.key})
        with contextlib.suppress(OSError):
            self._process.stdin.write(f"{asked}\n".encode())
            self._process.stdin.flush()
        deadline = None if seconds is None else time.monotonic() + seconds
        line = self._line(deadline)
        output = self._tail.take()
        if line is None:
            return Outcome(None, output, timed_out=True)
        try:
            found = json.loads(line)
            return Outcome(as_score(found["score"]), output, str(found["error"]))
        except (ValueError, LookupError, TypeError):
            self._process.kill()
            return Outcome(
                error="The process of the function ended before it returned. The end of its "
                f"output:\n{output or self._tail.text()}"
            )

    def _line(self, deadline: float | None) -> bytes | None:
        """Returns the next line, b"" at the end of the process, None when time is up."""
        while b"\n" not in self._read and len(self._read) < _LONGEST:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return None
            if not can_be_read(self._answers, left):
                return None
            part = os.read(self._answers, 1 << 16)
            if not part:
                return b""
            self._read += part
        line, _, self._read = self._read.partition(b"\n")
        return line

    def close(self) -> None:
        """Kills the process."""
        self._groups.end(self._process)
        self._tail.close()
        os.close(self._answers)
        self._folder.cleanup()


def _home() -> Path:
    """Returns the folder from which this package is imported."""
    return Path(str(sys.modules["agentgym"].__file__)).parents[1]
