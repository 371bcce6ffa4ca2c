"""SIGINT and SIGTERM: a run stops at the next safe point, where its state is consistent."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from typing import Any

import torch
from accelerate import Accelerator


class Interrupted(Exception):
    """The run was stopped by a signal, whose number is the argument."""


class StopSignal:
    """Context manager that records the first signal to stop. A second signal stops immediately.

    A second one within a second is no repeat if it is SIGTERM, which `timeout` and a sweep send to
    a process that may have got the signal with its group.

    Outside the main thread, where Python cannot handle signals, it does nothing.

    Args:
        accelerator: the accelerator. Its processes stop together.
    """

    def __init__(self, accelerator: Accelerator):
        self._accelerator = accelerator
        self._heard: int | None = None
        self._since = 0.0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> StopSignal:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._hear)
        return self

    def __exit__(self, *exc: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    def _hear(self, number: int, _: Any) -> None:
        now = time.monotonic()
        if self._heard is not None:
            if number == signal.SIGINT or now - self._since > 1:
                raise KeyboardInterrupt
            return
        self._heard, self._since = number, now
        # Unlike print, os.write is safe in a signal handler. `2>&1 | tee` may have left before.
        with contextlib.suppress(OSError):
            os.write(2, b"Stopping at the next safe point. Repeat to stop immediately.\n")

    def check(self, _: Any = None) -> None:
        """Raises Interrupted if this process received a signal: for work in `processes.shared`."""
        if self._heard is not None:
            raise Interrupted(self._heard)

    def agree(self) -> None:
        """Raises Interrupted in all processes if any of them received a signal."""
        if self._accelerator.num_processes > 1:
            mine = torch.tensor([self._heard or 0], device=self._accelerator.device)
            heard: Any = self._accelerator.gather(mine)
            if heard.any():
                raise Interrupted(int(heard.max()))
        self.check()
