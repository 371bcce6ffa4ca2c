"""The Java virtual machine of ScienceWorld: one per process, started on first use.

Import this module only if ScienceWorld is installed.
"""

from __future__ import annotations

import importlib
import os
from functools import cache
from typing import Any

_machines: dict[int, Any] = {}
"""By process, since a forked process must not use its parent's connection."""


def new_server() -> Any:
    """Returns a new simulator in this process's Java virtual machine."""
    process = os.getpid()
    if process not in _machines:
        _machines[process] = importlib.import_module("scienceworld").ScienceWorldEnv()
    machine = _machines[process]
    return machine._gateway.jvm.scienceworld.runtime.pythonapi.PythonInterface()


@cache
def solver(process: int) -> Any:
    """Returns the simulator that computes solutions in a process."""
    return new_server()
