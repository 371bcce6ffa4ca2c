"""Runs untrusted Python programs with limits of time, memory, output, files, network, processes.

Two interpreters are available, both with the extra `code`:

- "monty" (`pydantic-monty`): a subset of Python without system calls, on all platforms. Sessions
  keep their variables between programs.
- "cpython" (`sandlock`): CPython with its standard library, confined by Landlock and seccomp, on
  Linux 6.7 or later.

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
