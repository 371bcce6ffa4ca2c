"""Jericho's emulator in a process of its own, so that no command can hang or crash the caller.

The emulator is a library in C: a command that it never finishes cannot be interrupted. The process
is run by path and imports nothing of AgentGym. Requests and answers are lines of JSON on its
standard input and output.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import os
import re
import selectors
import subprocess
import sys
import threading
import time
import warnings
import weakref
from typing import Any

SECONDS = 30.0
"""Wall-clock limit of a request. Commands take milliseconds, lists of actions up to seconds."""

END = re.compile(r"\*\*\*\s*([^*\n]{1,80}?)\s*\*\*\*")
"""The usual last line of a story: *** You have won ***."""


class EmulatorStopped(Exception):
    """The emulator was killed because it took too long, or it crashed."""


class EmulatorFailed(Exception):
    """The emulator raised a Python error, whose text this is."""


class Emulator:
    """A story in a process, with a time limit for each request.

    Args:
        seconds: the time limit of a request. None: `SECONDS`.
    """

    def __init__(self, seconds: float | None = None):
        self._seconds = SECONDS if seconds is None else seconds
        self._owner = os.getpid()
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self._process = subprocess.Popen(
            [sys.executable, "-P", __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # the emulator may print without end
            start_new_session=True,  # an interrupt of the terminal must not end it halfway
            env=environment,
        )
        self._finish = weakref.finalize(self, _end, self._process, self._owner)

    @property
    def alive(self) -> bool:
        """Whether the process runs and belongs to this process, not to one that forked it."""
        return self._owner == os.getpid() and self._process.poll() is None

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        """Returns the answer to a request: see `Story`.

        Raises:
            EmulatorStopped: if the emulator took too long or crashed. It has then ended.
            EmulatorFailed: if it raised an error.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps([do, arguments]).encode() + b"\n")
            self._process.stdin.flush()
            line = self._line()
        except BrokenPipeError:
            line = b""
        except BaseException:
            self.close()  # its next answer would be the one to this request
            raise
        if not line.endswith(b"\n"):
            self.close()
            raise EmulatorStopped("the emulator crashed")
        answer = json.loads(line)
        if "failure" in answer:
            raise EmulatorFailed(answer["failure"])
        return answer

    def _line(self) -> bytes:
        """Reads a line, or less where the process ends."""
        assert self._process.stdout is not None
        found, deadline = b"", time.monotonic() + self._seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while not found.endswith(b"\n"):
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    self.close()
                    raise EmulatorStopped(f"the emulator took more than {self._seconds:g} seconds")
                part = os.read(self._process.stdout.fileno(), 1 << 16)
                if not part:
                    break
                found += part
        return found

    def close(self) -> None:
        """Ends the process."""
        self._finish()


def _end(process: subprocess.Popen[bytes], owner: int) -> None:
    """Ends the process and closes its pipes. In a forked process, it belongs to the parent."""
    if os.getpid() == owner:
        process.kill()
        process.wait()
    for stream in (process.stdin, process.stdout):
        with contextlib.suppress(OSError):
            stream.close()  # type: ignore[union-attr]


# The process.


class Story:
    """A story in this process. Its methods answer requests with the facts of a turn."""

    def __init__(self) -> None:
        self._game: Any = None
        self._listed = self._around = False

    def open(
        self, path: str, seed: int, commands: list[str], listed: bool, around: bool
    ) -> dict[str, Any]:
        """Starts a story and replays commands. The text is the first one.

        Args:
            path: the story file.
            seed: seed of the emulator.
            commands: the commands.
            listed: whether to list the actions that change the world, from now on.
            around: whether to return the responses to `look` and `inventory`, which are undone.
        """
        jericho: Any = importlib.import_module("jericho")

        if self._game is not None:
            self._game.close()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a warning about unsupported games
            self._game = jericho.FrotzEnv(path, seed=seed)
            text, _ = self._game.reset()
        for command in commands:
            self._game.step(command)
        self._listed, self._around = listed, around
        return self._facts(text, 0, False)

    def step(self, command: str) -> dict[str, Any]:
        """Plays a command."""
        text, gained, over, _ = self._game.step(command)
        ending = None if self._game.is_fully_supported else END.search(text)
        return self._facts(text, int(gained), bool(over), ending[1] if ending else "")

    def _facts(self, text: str, gained: int, over: bool, ending: str = "") -> dict[str, Any]:
        """Returns response, score, end and key of the state, and more on request."""
        game = self._game
        known, over = bool(game.is_fully_supported), over or bool(ending)
        found = {"text": text, "gained": gained, "over": over, "known": known, "ending": ending}
        found |= {"actions": [], "around": []}
        if known:
            found |= {"won": bool(game.victory()), "score": int(game.get_score())}
            found["most"] = int(game.get_max_score())
        if self._listed and known and not over:
            found["actions"] = sorted(set(game.get_valid_actions(use_parallel=False)))
        if self._around and not over:
            before = game.get_state()
            found["around"] = [game.step(command)[0] for command in ("look", "inventory")]
            game.set_state(before)
        if known:
            return found | {"key": str(game.get_world_state_hash())}
        memory = game.get_state()[0].tobytes()
        return found | {"key": hashlib.blake2b(memory, digest_size=16).hexdigest()}


def _watch(parent: int) -> None:
    """Ends this process after its parent, even in a command that never returns."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def serve() -> None:
    """Answers requests until standard input ends."""
    threading.Thread(target=_watch, args=(os.getppid(),), daemon=True).start()
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)  # the emulator reads and prints too
    os.dup2(null, 1)
    story = Story()
    for line in requests:
        do, arguments = json.loads(line)
        try:
            answer = getattr(story, do)(**arguments)
        except Exception as error:
            answer = {"failure": f"{type(error).__name__}: {error!s:.300}"}
        answers.write(json.dumps(answer).encode() + b"\n")
        answers.flush()


if __name__ == "__main__":
    serve()
