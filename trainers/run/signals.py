"""SIGINT and SIGTERM: a run stops at the next point where nothing is half done."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

import torch
from accelerate import Accelerator


class Interrupted(Exception):
    """A signal asked the run to stop; its number is the argument."""


class StopSignal:
    """Remembers, as a context manager, the first signal to stop; the second stops at once.

    Outside the main thread, where signals cannot be caught, it hears nothing.

    Args:
        accelerator: of accelerate; its processes stop together.
    """

    def __init__(self, accelerator: Accelerator):
        self._accelerator = accelerator
        self._heard: int | None = None
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
        if self._heard is not None:
            raise KeyboardInterrupt
        self._heard = number
        os.write(2, b"Stopping at the next safe point; again stops at once.\n")  # safe in a handler

    def check(self, _: Any = None) -> None:
        """Raises Interrupted if the run was asked to stop; of several processes none does here."""
        if self._heard is not None and self._accelerator.num_processes == 1:
            raise Interrupted(self._heard)

    def agree(self) -> None:
        """Raises Interrupted in all processes if any of them was asked to stop."""
        if self._accelerator.num_processes > 1:
            heard: Any = torch.tensor(float(self._heard or 0), device=self._accelerator.device)
            if self._accelerator.reduce(heard, "sum").sum() > 0:  # type: ignore[union-attr]
                raise Interrupted(self._heard or signal.SIGTERM)
        self.check()
