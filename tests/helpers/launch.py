"""Starts a Python program as several processes that find each other, as `torchrun` does."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path


def launch(arguments: Sequence[str], processes: int = 1, **env: str) -> list[subprocess.Popen[str]]:
    """Starts `python -P ARGUMENTS` as several processes with gloo on the CPU.

    Args:
        arguments: arguments of Python. `-m tests.helpers.NAME` finds the modules beside this one.
        processes: number of processes. 1 starts it without variables of torchrun.
        **env: further environment variables.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    root = str(Path(__file__).parents[2])
    paths = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
    children = []
    for rank in range(processes):
        variables = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": paths, **env}
        if processes > 1:
            variables |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "MASTER_PORT": port}
            variables |= {"WORLD_SIZE": str(processes), "LOCAL_WORLD_SIZE": str(processes)}
            variables |= {"MASTER_ADDR": "127.0.0.1", "ACCELERATE_USE_CPU": "true"}
        child = subprocess.Popen(
            [sys.executable, "-P", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=variables,
        )
        children.append(child)
    return children


def finish(children: Sequence[subprocess.Popen[str]], code: int = 0) -> list[str]:
    """Waits for processes, checks their exit codes and returns their standard errors."""
    try:
        errors = [child.communicate(timeout=300)[1] for child in children]
    finally:
        for child in children:
            child.kill()
    for child, error in zip(children, errors, strict=True):
        assert child.returncode == code, error[-3000:]
    return errors
