"""Processes of training runs, which stop and save when their parent gets a signal to stop."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence
from typing import Any


class Children:
    """Context manager that passes signals to stop on to processes. Needs the main thread.

    Attributes:
        heard: the first signal, None if there was none.
    """

    def __init__(self) -> None:
        self.heard: int | None = None
        self._running: list[subprocess.Popen[str]] = []
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Children:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._hear)
        return self

    def __exit__(self, *exc: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def run(self, command: Sequence[str], **options: Any) -> None:
        """Runs a command, in any thread.

        Args:
            command: the command.
            **options: arguments of `Popen`, with text pipes.

        Raises:
            subprocess.CalledProcessError: if it fails.
        """
        with subprocess.Popen(command, **options) as process:
            self._running.append(process)
            if self.heard is not None:  # after the command was started, before it was in the list
                process.terminate()
            _, errors = process.communicate()
            self._running.remove(process)
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command, stderr=errors)

    def _hear(self, number: int, _: Any) -> None:
        if self.heard is None:
            self.heard = number
            with contextlib.suppress(OSError):  # the reader may have left
                os.write(2, b"Stopping the runs at their next safe points. Repeat to stop now.\n")
        for process in list(self._running):
            process.terminate()
