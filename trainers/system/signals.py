"""Signals to stop: a run stops at the next safe point, where its state is consistent."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, cast

import gymnasium
import torch
from accelerate import Accelerator

STOP_SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)
"""The signals that stop a run: Ctrl-C, the end of a job, and a terminal that closes."""
SLOW = 1.0
"""Seconds after which a run that stops names the environments that it waits for."""
GRACE = 3.0
"""Seconds that a process has to close everything after the second signal."""


class Interrupted(Exception):
    """The run was stopped by a signal, whose number is the argument."""


def handled_signals() -> tuple[int, ...]:
    """Returns the signals to handle: SIGHUP only if it is not ignored, as after `nohup`."""
    return tuple(
        number
        for number in STOP_SIGNALS
        if number in (signal.SIGINT, signal.SIGTERM)
        or signal.getsignal(number) is not signal.SIG_IGN
    )


class StopSignal:
    """Context manager that records the first signal to stop. A second signal stops immediately.

    It raises KeyboardInterrupt in the main thread, and the process ends after `GRACE` seconds if
    something does not let go, such as a thread that an environment has started. A third signal ends
    the process at once.

    A second one within a second is no repeat if it is not SIGINT: `timeout` and a sweep send
    SIGTERM to a process that may have got the signal with its group.

    Outside the main thread, where Python cannot handle signals, it does nothing.

    Args:
        accelerator: the accelerator. Its processes stop together.

    Attributes:
        heard: the first signal, None before it.
    """

    def __init__(self, accelerator: Accelerator):
        self._accelerator = accelerator
        self.heard: int | None = None
        self._since = 0.0
        self._repeated = False
        self._left = threading.Event()
        self._handled = self._taken = 0
        self._when: Callable[[], str] = _safe
        self._before: dict[int, Any] = {}
        self._pipe: tuple[int, int, int] | None = None

    def __enter__(self) -> StopSignal:
        self._left.clear()
        if threading.current_thread() is threading.main_thread():
            for number in handled_signals():
                self._before[number] = signal.signal(number, self._handle)
            reads, writes = os.pipe()
            os.set_blocking(writes, False)
            before = signal.set_wakeup_fd(writes, warn_on_full_buffer=False)
            self._pipe = reads, writes, before
            threading.Thread(target=self._watch, args=(reads,), daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._left.set()
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()
        if self._pipe is not None:
            _, writes, before = self._pipe
            signal.set_wakeup_fd(before)
            os.close(writes)  # which ends the thread
            self._pipe = None

    @contextlib.contextmanager
    def during(self, when: Callable[[], str]) -> Iterator[None]:
        """Says in a block when the run will stop, for the first signal."""
        self._when = when
        try:
            yield
        finally:
            self._when = _safe

    def _handle(self, number: int, _: Any) -> None:
        self._handled += 1
        if self._handled > self._taken:  # the thread has not taken it
            self._hear(number)

    def _watch(self, reads: int) -> None:
        """Takes the signals that the main thread does not handle, because a library keeps it.

        Python calls handlers in the main thread between two instructions of its own. Another
        process that hangs, for example, keeps it in a collective operation.
        """
        count = 0
        with os.fdopen(reads, "rb", buffering=0) as file:
            while byte := file.read(1):
                if byte[0] not in self._before:
                    continue
                count += 1
                deadline = time.monotonic() + SLOW
                while self._handled < count and time.monotonic() < deadline:
                    time.sleep(0.05)
                if self._handled < count:
                    self._taken = count
                    self._hear(byte[0])

    def _hear(self, number: int) -> None:
        now = time.monotonic()
        if self.heard is None:
            self.heard, self._since = number, now
            _write(f"Stopping {self._when()}. Repeat to stop immediately.")
            threading.Thread(target=self._name_calls, daemon=True).start()
            return
        if number != signal.SIGINT and now - self._since <= 1:
            return
        if self._repeated:
            os._exit(128 + number)
        self._repeated = True
        _write(f"Stopping immediately{_in_calls()}.")
        threading.Thread(target=self._end, args=(128 + number,), daemon=True).start()
        if threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt

    def _name_calls(self) -> None:
        """Names the environments that keep a run from stopping."""
        if not self._left.wait(SLOW) and (calls := environment_calls()):
            _write(f"Waiting for {', '.join(calls)}.")

    def _end(self, code: int) -> None:
        """Ends the process if it does not end by itself."""
        if self._left.wait(GRACE):
            threading.main_thread().join()  # until the interpreter waits for other threads
            time.sleep(SLOW)
        _write(
            f"Stopped without waiting{_in_calls(' for ')}. --resume continues from the last "
            "checkpoint."
        )
        os._exit(code)

    def check(self, _: Any = None) -> None:
        """Raises Interrupted if this process received a signal: for work in `processes.shared`."""
        if self.heard is not None:
            raise Interrupted(self.heard)

    def agree(self) -> None:
        """Raises Interrupted in all processes if any of them received a signal."""
        if self._accelerator.num_processes > 1:
            mine = torch.tensor([self.heard or 0], device=self._accelerator.device)
            heard: Any = self._accelerator.gather(mine)
            if heard.any():
                raise Interrupted(int(heard.max()))
        self.check()


def _safe() -> str:
    """When a run stops, where there is no better answer."""
    return "at the next safe point"


def environment_calls() -> list[str]:
    """Returns the calls into environments that are in progress in any thread, in words."""
    return [call for frame in sys._current_frames().values() if (call := _call(frame)) is not None]


def _call(frame: FrameType | None) -> str | None:
    """Returns the outermost call into an environment on a stack, with its episode."""
    call = episode = None
    while frame is not None:
        name, owner = frame.f_code.co_name, cast(Any, frame.f_locals.get("self"))
        if name in ("reset", "step") and isinstance(owner, gymnasium.Env):
            call = f"`{name}` of {type(owner.unwrapped).__name__}"
        elif name in ("start", "step") and hasattr(owner, "episode"):  # a `Playing`
            call = call or f"`{name}` of {type(owner.env.unwrapped).__name__}"
            episode = owner.episode
        frame = frame.f_back
    task, seed = getattr(episode, "task", None), getattr(episode, "seed", None)
    return call if episode is None else f"{call} in task {task!r} with seed {seed}"


def _in_calls(before: str = ", in the middle of ") -> str:
    calls = environment_calls()
    return f"{before}{', '.join(calls)}" if calls else ""


def _write(text: str) -> None:
    # Unlike print, os.write is safe in a signal handler. `2>&1 | tee` may have left before.
    with contextlib.suppress(OSError):
        os.write(2, f"{text}\n".encode("utf-8", "replace"))
