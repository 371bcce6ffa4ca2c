"""Runs untrusted Python programs with limits of time, memory, output, files, network, processes.

Two interpreters are available, both with the extra `code`:

- "monty" (`pydantic-monty`): a subset of Python without system calls, on all platforms. Sessions
  keep their variables between programs. It is a barrier of the language alone: its process has the
  rights of the user, so a fault of the interpreter would not be confined.
- "cpython" (`sandlock`): CPython with its standard library, confined by Landlock and seccomp, on
  Linux 6.7 or later. A program cannot read the content of other files, but it can see that a path
  exists, with its size and times, and the load, memory and network interfaces of the machine.

Limits of time are limits of CPU time. A program that sleeps ends after five times as many seconds
of wall-clock time, and so may one on a loaded machine.

A program never runs without a sandbox: `check_sandbox` raises an error where there is none.
"""

from __future__ import annotations

from agentgym.sandbox.programs import (
    Cell,
    Interpreter,
    Limits,
    Outcome,
    check_sandbox,
    run_calls,
    run_cell,
    run_program,
)

__all__ = [
    "Cell",
    "Interpreter",
    "Limits",
    "Outcome",
    "check_sandbox",
    "run_calls",
    "run_cell",
    "run_program",
]
