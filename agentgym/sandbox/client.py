"""The caller's side of the worker processes that own the sandboxes."""

from __future__ import annotations

import atexit
import contextlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agentgym.errors import SandboxError
from agentgym.sandbox.worker import read_frame, write_frame

Reply = Callable[[dict[str, Any]], dict[str, Any]]
_WORKER = Path(__file__).with_name("worker.py")
_CRASHED = {"output": "", "error": "The interpreter stopped", "stopped": "crash", "state": ""}


class Worker:
    """A process that runs `worker.py` and answers one request at a time."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(_WORKER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # an interrupt of the terminal must not end it halfway
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._requests, self._answers = self._process.stdin, self._process.stdout

    @property
    def alive(self) -> bool:
        """Whether the process has not ended."""
        return self._process.poll() is None

    def ask(self, request: dict[str, Any]) -> dict[str, Any] | None:
        """Returns the answer to a request, or None if the process has ended."""
        try:
            write_frame(self._requests, request)
            return read_frame(self._answers)
        except BrokenPipeError:
            return None

    def close(self) -> None:
        """Ends the process."""
        self._process.kill()
        self.forget()
        self._process.wait()

    def forget(self) -> None:
        """Closes the pipes. In a forked process, the worker belongs to the parent."""
        for stream in (self._requests, self._answers):
            with contextlib.suppress(OSError):
                stream.close()


_idle: list[Worker] = []
"""Workers that wait for a request. A thread takes one and puts it back."""


def ask(request: dict[str, Any], reply: Reply | None = None) -> dict[str, Any]:
    """Returns the answer of a worker. A crash of the worker is an outcome of the program.

    Args:
        request: the request.
        reply: answers a call of a function in the program.

    Raises:
        SandboxError: if the sandbox could not be started.
    """
    worker = _take()
    try:
        answer = worker.ask(request)
        while reply is not None and answer is not None and "call" in answer:
            answer = worker.ask(reply(answer))
    except BaseException:
        worker.close()  # its next answer would be the one to this request
        raise
    if answer is None:
        worker.close()
        return {**_CRASHED, "reason": "the worker process ended"}
    _idle.append(worker)
    if "failure" in answer:
        raise SandboxError(f"A sandbox could not be started: {answer['failure']}")
    return answer


def _take() -> Worker:
    """Returns a worker. One that ended while it waited says nothing about the next program."""
    while True:
        try:
            worker = _idle.pop()
        except IndexError:
            return Worker()
        if worker.alive:
            return worker
        worker.close()


def _forget_parents() -> None:
    for worker in _idle:
        worker.forget()
        worker._process.returncode = 0
    _idle.clear()


def _close_all() -> None:
    while _idle:
        _idle.pop().close()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_forget_parents)
atexit.register(_close_all)
