"""`Groups`: processes of users' programs, each the first of a group that ends with it.

A program may start others, ignore a request to end, or write without end. Its group is killed when
it has ended, when its time is up, and when the trainer dies: a small process, the reaper, waits for
that.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from agentgym.errors import ConfigError

GRACE = 2.0
"""Seconds between the request to end and the end by force."""
TAIL = 4000
"""Bytes of the output that are kept, from the end."""
_REAPER = """
import os, signal, sys
groups = set()
for line in sys.stdin:
    groups.symmetric_difference_update([int(line)])
for group in groups:
    try:
        os.killpg(group, signal.SIGKILL)
    except OSError:
        pass
"""


class Tail:
    """Reads a stream to its end in a thread, and keeps the last bytes.

    Args:
        stream: the stream.
    """

    def __init__(self, stream: IO[bytes]):
        self._stream, self._kept = stream, b""
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            while part := os.read(self._stream.fileno(), 1 << 16):
                self._kept = (self._kept + part)[-TAIL:]

    def text(self) -> str:
        """Returns the last characters. The stream must have ended, or nobody writes any more."""
        self._thread.join(GRACE)
        return self._kept.decode("utf-8", "replace").strip()

    def close(self) -> None:
        """Closes the stream, when its end was read."""
        self._thread.join(GRACE)  # the process has ended, but its last output may be unread
        if not self._thread.is_alive():
            self._stream.close()

    def take(self) -> str:
        """Returns the last characters so far, and forgets them."""
        kept, self._kept = self._kept, b""
        return kept.decode("utf-8", "replace").strip()


class Groups:
    """The groups of processes in progress."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[int] = set()
        self._reaper: subprocess.Popen[bytes] | None = None
        self.closed = False

    def start(
        self,
        words: Sequence[str],
        environ: Mapping[str, str],
        folder: Path,
        stdin: int = subprocess.DEVNULL,
        pass_fds: Sequence[int] = (),
    ) -> tuple[subprocess.Popen[bytes], Tail]:
        """Starts a program in a group of its own.

        Args:
            words: the command.
            environ: its environment variables.
            folder: its working folder.
            stdin: its standard input, as for `Popen`.
            pass_fds: descriptors that it inherits.

        Raises:
            ConfigError: if it cannot be started.
        """
        with self._lock:
            if self.closed:
                raise ConfigError("The programs have been ended.")
            try:
                process = subprocess.Popen(
                    words,
                    env=dict(environ),
                    cwd=folder,
                    stdin=stdin,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    pass_fds=pass_fds,
                    start_new_session=True,
                )
            except (OSError, ValueError) as error:
                raise ConfigError(f"The program {words[0]!r} cannot be started: {error}.") from None
            self._running.add(process.pid)
            self._tell(process.pid)
        assert process.stdout is not None
        return process, Tail(process.stdout)

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """Ends a program, if it has not ended, and all that it has started."""
        if process.poll() is None:
            _signal(process.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(GRACE)
        _signal(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE)
        if process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()
        with self._lock:
            if process.pid in self._running:
                self._running.discard(process.pid)
                self._tell(process.pid)

    def close(self) -> None:
        """Ends all programs at once, and starts no more."""
        with self._lock:
            self.closed = True
            running, self._running = self._running, set()
        for group in running:
            _signal(group, signal.SIGTERM)
        if running:
            time.sleep(0.1)
        for group in running:
            _signal(group, signal.SIGKILL)
        with self._lock:
            reaper, self._reaper = self._reaper, None
        if reaper is not None:
            assert reaper.stdin is not None
            with contextlib.suppress(OSError):
                reaper.stdin.close()
            reaper.wait()

    def _tell(self, group: int) -> None:
        """Tells the reaper that a group has been started, or has ended."""
        if self._reaper is None:
            self._reaper = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _REAPER],
                stdin=subprocess.PIPE,
                start_new_session=True,
            )
        assert self._reaper.stdin is not None
        with contextlib.suppress(OSError):
            self._reaper.stdin.write(f"{group}\n".encode())
            self._reaper.stdin.flush()


def _signal(group: int, number: int) -> None:
    with contextlib.suppress(OSError):
        os.killpg(group, number)
