"""Processes of training runs, which stop and save when their parent gets a signal to stop."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from pathlib import Path
from typing import Any, TypeVar

from agentgym.errors import ConfigError
from agentgym.trainers.cli.train import read_config
from agentgym.trainers.settings import settings_of
from agentgym.trainers.settings.effects import is_default, settings_of_run
from agentgym.trainers.system.checkpoint import same_setting
from agentgym.trainers.system.signals import handled_signals
from agentgym.utils.masking import masked_settings

T = TypeVar("T")

WITHOUT_EFFECT = ("run_dir", "resume", "quiet", "threads")
"""Settings that do not change the results of a run."""


class Children:
    """Context manager that passes signals to stop on to processes. Needs the main thread.

    Args:
        minutes: time limit of the block, at which the processes are told to stop, too. None: there
            is no limit.

    Attributes:
        heard: the first signal, None if there was none.
        late: whether the time limit has passed.
    """

    def __init__(self, minutes: float | None = None) -> None:
        self.heard: int | None = None
        self.late = False
        self._timer = None if minutes is None else threading.Timer(60 * minutes, self._expire)
        self._running: list[subprocess.Popen[str]] = []
        self._before: dict[int, Any] = {}

    @property
    def stopping(self) -> bool:
        """Whether the processes were told to stop, so that no other one is to be started."""
        return self.late or self.heard is not None

    def __enter__(self) -> Children:
        for number in handled_signals():
            self._before[number] = signal.signal(number, self._hear)
        if self._timer is not None:
            self._timer.daemon = True
            self._timer.start()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
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
            if self.stopping:  # after the command was started, before it was in the list
                process.terminate()
            _, errors = process.communicate()
            self._running.remove(process)
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command, stderr=errors)

    def _hear(self, number: int, _: Any) -> None:
        if self.heard is None:
            self.heard = number
            _write("Stopping the runs at their next safe points. Repeat to stop now.")
        for process in list(self._running):
            process.terminate()

    def _expire(self) -> None:
        self.late = True
        if self.heard is None:
            _write("The time limit has passed: stopping the runs at their next safe points.")
            for process in list(self._running):
                process.terminate()


def as_they_end(futures: Iterable[Future[T]]) -> Iterator[Future[T]]:
    """Yields futures as they end, in the main thread, which handles signals between two waits.

    A signal that arrives just before a wait, or in another thread, does not interrupt it.
    """
    left = set(futures)
    while left:
        ended, left = wait(left, timeout=0.5, return_when=FIRST_COMPLETED)
        yield from ended


def _write(text: str) -> None:
    # Unlike print, os.write is safe in a signal handler. The reader may have left.
    with contextlib.suppress(OSError):
        os.write(2, f"{text}\n".encode())


def train_in_process(
    recipe: str,
    flags: Sequence[Any],
    folder: Path,
    threads: int = 1,
    variables: Mapping[str, str] | None = None,
    children: Children | None = None,
) -> None:
    """Runs a recipe in a process of its own unless the run has finished.

    Args:
        recipe: the name of the recipe.
        flags: flags of `agentgym train`.
        folder: the run's folder. An interrupted run in it is resumed.
        threads: number of OpenMP threads.
        variables: environment variables, besides those of this process.
        children: passes signals on to the process.

    Raises:
        ConfigError: if the run has finished, with other settings.
        subprocess.CalledProcessError: if the run fails. `stderr` holds its messages.
    """
    if finished(recipe, flags, folder):
        return
    command = [sys.executable, "-m", "agentgym.trainers", recipe, *flags]
    command += ["--run-dir", folder, "--resume", "--quiet"]
    (children or Children()).run(
        [str(word) for word in command],
        env={**os.environ, "OMP_NUM_THREADS": str(threads), **(variables or {})},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(recipe: str, flags: Sequence[Any], folder: Path) -> bool:
    """Returns whether a run has finished.

    Raises:
        ConfigError: if it has, with other settings than those of the flags or unknown ones.
    """
    if not (folder / "report.json").exists():
        return False
    file = folder / "config.json"
    try:
        before = masked_settings(json.loads(file.read_text(encoding="utf-8"))["config"])
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        raise ConfigError(
            f"{folder} holds a finished run, whose settings cannot be read from {file.name} "
            f"({error!r}): delete the folder, and the run is repeated."
        ) from error
    config = read_config(recipe, [str(word) for word in flags])
    before = settings_of_run(config, before)
    now = json.loads(json.dumps({"recipe": recipe, **config.to_json()}))
    unset = {name: value for name, value in now.items() if is_default(type(config), name, value)}
    known = {"recipe", *settings_of(type(config))}
    before = unset | {name: value for name, value in before.items() if name in known}
    if different := [
        f"{name} = {before.get(name)!r} -> {now.get(name)!r}"
        for name in sorted((before.keys() | now.keys()) - set(WITHOUT_EFFECT))
        if not same_setting(before.get(name), now.get(name))
    ]:
        raise ConfigError(
            f"{folder} holds a finished run of other settings ({', '.join(different)}): choose a "
            "new folder, or delete this one."
        )
    return True
