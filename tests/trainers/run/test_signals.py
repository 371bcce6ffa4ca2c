from __future__ import annotations

import os
import signal
import time

import pytest
from accelerate import Accelerator

from agentgym.trainers.run.signals import Interrupted, StopSignal


def test_a_run_hears_a_signal_after_the_reader_of_its_errors_has_left(
    monkeypatch: pytest.MonkeyPatch,
):
    def leave(*_: object) -> int:
        raise BrokenPipeError

    with StopSignal(Accelerator()) as stop:
        monkeypatch.setattr(os, "write", leave)
        os.kill(os.getpid(), signal.SIGTERM)
        monkeypatch.undo()
        with pytest.raises(Interrupted):
            stop.check()


def test_a_second_sigterm_is_a_repeat_only_later(monkeypatch: pytest.MonkeyPatch):
    with StopSignal(Accelerator()) as stop:
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(Interrupted):
            stop.check()
        now = time.monotonic()
        monkeypatch.setattr(time, "monotonic", lambda: now + 2)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)
        monkeypatch.undo()
