from __future__ import annotations

import os
import signal
import threading
import time
from queue import SimpleQueue
from typing import Any

import gymnasium
import pytest
from accelerate import Accelerator

from agentgym.trainers.system import signals
from agentgym.trainers.system.signals import Interrupted, StopSignal


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


def test_a_terminal_that_closes_stops_a_run_unless_it_is_to_go_on():
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        with StopSignal(Accelerator()) as stop:
            os.kill(os.getpid(), signal.SIGHUP)
            with pytest.raises(Interrupted):
                stop.check()
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as `nohup` does
        with StopSignal(Accelerator()) as stop:
            os.kill(os.getpid(), signal.SIGHUP)
            stop.check()
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_signal_is_heard_while_a_library_keeps_the_main_thread(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(signals, "SLOW", 0.05)
    heard: SimpleQueue[int] = SimpleQueue()
    with StopSignal(Accelerator()) as stop:
        monkeypatch.setattr(stop, "_hear", heard.put)
        assert stop._pipe is not None
        # What Python writes at once, before a handler can run in the main thread.
        os.write(stop._pipe[1], bytes([signal.SIGTERM]))
        assert heard.get(timeout=30) == signal.SIGTERM
        stop._handle(signal.SIGTERM, None)  # the same one, when the main thread goes on
        assert heard.empty()
        os.kill(os.getpid(), signal.SIGINT)
        assert heard.get(timeout=30) == signal.SIGINT


class Waits(gymnasium.Env[Any, Any]):
    def __init__(self) -> None:
        self.begun, self.go_on = threading.Event(), threading.Event()

    def step(self, action: Any) -> Any:
        self.begun.set()
        self.go_on.wait(30)


def test_calls_into_environments_are_named_in_any_thread():
    env = Waits()
    thread = threading.Thread(target=env.step, args=("go",))
    thread.start()
    env.begun.wait(30)
    assert "`step` of Waits" in signals.environment_calls()
    env.go_on.set()
    thread.join()
    assert "`step` of Waits" not in signals.environment_calls()
