"""The process that owns the sandboxes. It is run by path and imports nothing of AgentGym.

Requests and responses are JSON with a length of four bytes before it, on standard input and output.
A process of its own keeps the threads of the sandboxes out of the caller, which may fork.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import json
import os
import selectors
import signal
import struct
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

Request = dict[str, Any]
Response = dict[str, Any]
Converse = Callable[[Response], Request]
"""Sends a message to the caller in the middle of a request and returns its reply."""

HEADER = struct.Struct(">I")
DRIVER = Path(__file__).with_name("driver.py")
_START = datetime(2026, 1, 1, tzinfo=UTC)
_SLACK = 5
"""Wall-clock seconds per second of the CPU limit. A loaded machine is slow."""
_CHUNK = 65_536
_FILES = 32
"""Number of files that a program may have open."""


def read_frame(stream: IO[bytes]) -> Any:
    """Returns the next message of a stream, or None at its end."""
    header = stream.read(HEADER.size)
    if len(header) < HEADER.size:
        return None
    (size,) = HEADER.unpack(header)
    content = stream.read(size)
    return json.loads(content) if len(content) == size else None


def write_frame(stream: IO[bytes], message: Any) -> None:
    """Writes a message to a stream."""
    content = json.dumps(message).encode()
    stream.write(HEADER.pack(len(content)) + content)
    stream.flush()


# Monty, an interpreter without system calls.


@functools.cache
def _pool() -> Any:
    import pydantic_monty

    pool = pydantic_monty.Monty(max_processes=1, request_timeout=60.0)
    return pool.__enter__()


class _Printed:
    """Collects the first characters that a program prints."""

    def __init__(self, limit: int):
        self.limit, self.parts = limit, [""]

    def __call__(self, stream: str, text: str) -> None:
        self.parts.append(text[: self.limit])
        self.limit -= len(self.parts[-1])

    def value(self, value: Any) -> None:
        """Adds the value of the last expression, as a notebook does."""
        with contextlib.suppress(Exception):
            if value is not None:
                self("stdout", f"{value!r}\n")


def _functions(request: Request, converse: Converse) -> dict[str, Callable[..., Any]]:
    """Returns the caller's functions. Recorded answers come first, then those of the caller."""
    recorded = iter(request["answers"])

    def function(name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            message = {"call": name, "args": args, "kwargs": kwargs}
            json.dumps(message)  # an error is one of the program
            answer = next(recorded, None)
            reply = converse(message) if answer is None else json.loads(answer)
            if "error" in reply:
                raise RuntimeError(reply["error"])
            return reply["value"]

        return call

    return {name: function(name) for name in request["functions"]}


def monty(request: Request, converse: Converse) -> Response:
    """Runs a program in a new or restored interpreter session."""
    import pydantic_monty

    printed, error, stopped, state = _Printed(request["output"]), "", "", ""
    limits: Any = {
        "max_feed_duration_secs": request["seconds"],
        "max_memory": request["memory"],
        "max_recursion_depth": 500,
    }
    policy: Any = {"datetime": _START, "sleep": "zero", "random_start": {"seed": 0}}
    try:
        with _pool().checkout(limits=limits, os_policy=policy) as session:
            if request["state"]:
                session.load_session(base64.b64decode(request["state"]))
            try:
                functions = _functions(request, converse)
                value = session.feed_run(
                    request["code"], print_callback=printed, external_lookup=functions
                )
                printed.value(value)
            except pydantic_monty.MontyCrashedError:
                raise
            except pydantic_monty.MontyError as raised:
                error, stopped = _explained(raised)
            if request["keep"] and not stopped:
                state = base64.b64encode(session.dump()).decode()
    except pydantic_monty.MontyError as raised:
        error, stopped, state = f"The interpreter stopped: {raised!s:.200}", "crash", ""
    except (ValueError, TypeError, RecursionError, OverflowError) as raised:
        error, stopped, state = f"{type(raised).__name__}: {raised!s:.200}", "crash", ""
    return _answer(request, "".join(printed.parts), error, stopped, state)


def _answer(request: Request, output: str, error: str, stopped: str, state: str) -> Response:
    """Returns an answer with the start of the output and the end of the error."""
    limit = request["output"]
    kept = {"output": output[:limit], "error": error[-limit:]}
    return {**kept, "stopped": stopped, "state": state}


def _explained(raised: Any) -> tuple[str, str]:
    """Returns a traceback and the limit that was exceeded."""
    text = raised.display()
    last = text.rpartition("\n")[2]
    if last.startswith("TimeoutError: feed time limit"):
        return "TimeoutError: the program took too long and was stopped", "time"
    if last.startswith("MemoryError: memory limit"):
        return "MemoryError: the program used too much memory and was stopped", "memory"
    return text, ""


# CPython under Landlock and seccomp.

DENIED = (
    # Attributes of files, which Landlock does not cover.
    "chmod fchmod fchmodat fchmodat2 chown fchown lchown fchownat utime utimes futimesat utimensat "
    "setxattr lsetxattr fsetxattr setxattrat removexattr lremovexattr fremovexattr removexattrat "
    "inotify_init inotify_init1 fanotify_init sync syncfs chroot "
    # Other processes of the same user.
    "setpriority sched_setaffinity sched_setscheduler sched_setparam sched_setattr ioprio_set "
    "prlimit64 setrlimit pidfd_open pidfd_send_signal "
    # Files in memory, which count as the host's memory and not as the program's.
    "memfd_create memfd_secret "
    # The network and the system.
    "socketpair clock_settime clock_adjtime settimeofday adjtimex syslog"
)
"""System calls that are denied in addition to those of sandlock."""


@functools.cache
def _confinement() -> dict[str, Any]:
    """Returns what a program may read: the interpreter and its standard library."""
    python = os.path.realpath(sys.executable)
    paths = sysconfig.get_paths(vars={"base": sys.base_prefix, "platbase": sys.base_prefix})
    readable = {python, paths["stdlib"], paths["platstdlib"]}
    listed = subprocess.run([python, "-S", "-c", _LIBRARIES], capture_output=True, text=True)
    readable.update(json.loads(listed.stdout))
    readable.add("/etc/ld.so.cache")
    packages = [f"{paths['stdlib']}/{name}" for name in ("site-packages", "dist-packages")]
    return {
        "fs_readable": sorted(filter(os.path.exists, readable)),
        "fs_denied": sorted(filter(os.path.exists, {*packages, paths["purelib"]})),
        "clean_env": True,
        "env": {"PYTHONHASHSEED": "0", "LC_ALL": "C.UTF-8"},
        "max_processes": 1,
        "extra_deny_syscalls": DENIED.split(),
        "random_seed": 0,
        "time_start": _START,
        "no_randomize_memory": True,
        "no_coredump": True,
    }


_LIBRARIES = """
import json, select, zlib, hashlib, decimal, ctypes
maps = open("/proc/self/maps").read().split("\\n")
print(json.dumps(sorted({line.split()[-1] for line in maps if ".so" in line or "/ld" in line})))
"""


def cpython(request: Request, converse: Converse) -> Response:
    """Runs a program with files in a new, confined Python process."""
    import resource

    from sandlock import Sandbox
    from sandlock.sandbox import StdioMode

    sandbox = Sandbox(**_confinement(), max_memory=2 * request["memory"])
    seconds, memory = request["seconds"], request["memory"]
    limits = {
        # The signal of the soft limit tells that time is up. At the hard one there is none.
        resource.RLIMIT_CPU: (seconds, seconds + 1),
        resource.RLIMIT_AS: (memory, memory),
        resource.RLIMIT_NOFILE: (_FILES, _FILES),
        resource.RLIMIT_CORE: (0, 0),
        resource.RLIMIT_FSIZE: (0, 0),  # nothing may be written but the output
    }
    python = os.path.realpath(sys.executable)
    command = [python, "-s", "-S", "-P", "-B", "-X", "utf8", "-c", DRIVER.read_text()]
    piped = StdioMode.PIPED
    job = repr((request["code"], request["files"]))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with sandbox.popen(command, stdin=piped, stdout=piped, stderr=piped) as process:
        assert process.pid is not None and process.stdin is not None
        for limit, value in limits.items():  # the driver waits for the job
            resource.prlimit(process.pid, limit, value)
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(job.encode("utf-8", "surrogatepass"))
        process.stdin.close()
        deadline = time.monotonic() + _SLACK * seconds
        output, error, stopped = _collect(process, request["output"], deadline)
        if stopped:
            process.kill()
        # A program can close its output and sleep. It is killed when time is up.
        result = process.wait(max(0.0, deadline - time.monotonic()))
    text, errors = output.decode("utf-8", "replace"), error.decode("utf-8", "replace")
    if not stopped and not result.success:
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        # A program may ignore the signal of the soft limit. At the hard one it is killed.
        stopped = "time" if used >= seconds else _reason(result)
    if stopped:
        errors = _STOPPED[stopped]
    elif not result.success and not errors:
        errors = f"The program ended with status {result.exit_code}"
    return _answer(request, text, errors, stopped, "")


_STOPPED = {
    "time": "TimeoutError: the program took too long and was stopped",
    "output": "The program wrote too much output and was stopped",
    "crash": "The program was killed, which happens if it uses too much memory",
}


def _collect(process: Any, limit: int, deadline: float) -> tuple[bytes, bytes, str]:
    """Reads both outputs until they end, are too long or time is up."""
    found = {process.stdout: bytearray(), process.stderr: bytearray()}
    with selectors.DefaultSelector() as selector:
        for stream in found:
            selector.register(stream, selectors.EVENT_READ)
        while selector.get_map():
            left = deadline - time.monotonic()
            if left <= 0:
                return *map(bytes, found.values()), "time"  # type: ignore[return-value]
            for key, _ in selector.select(left):
                content = os.read(key.fd, _CHUNK)
                found[key.fileobj] += content  # type: ignore[index]
                if not content:
                    selector.unregister(key.fileobj)
                elif max(map(len, found.values())) > 4 * limit:
                    return *(bytes(x[:limit]) for x in found.values()), "output"  # type: ignore[return-value]
    return *map(bytes, found.values()), ""  # type: ignore[return-value]


def _reason(result: Any) -> str:
    if result.reason.name == "TIMEOUT" or result.signal == signal.SIGXCPU:
        return "time"
    if result.exit_code == 128 + signal.SIGXCPU:
        return "time"
    return "crash" if result.exit_code < 0 or result.signal > 0 else ""


# The service.


def check(request: Request, converse: Converse) -> Response:
    """Returns the reason why a sandbox is not available, or ""."""
    kind = request["kind"]
    try:
        if kind == "cpython":
            from sandlock import landlock_abi_version, min_landlock_abi

            if landlock_abi_version() < min_landlock_abi():
                return {"reason": "sandlock needs Linux 6.7 or later with Landlock (ABI v6)"}
    except Exception as error:
        return {"reason": f"{type(error).__name__}: {error!s:.300}"}
    return {"reason": ""}


HANDLERS: dict[str, Callable[[Request, Converse], Response]] = {
    "monty": monty,
    "cpython": cpython,
    "check": check,
}


def drop_capabilities() -> None:
    """Gives up the capabilities of a superuser, for this process and its children."""
    import ctypes

    libc = ctypes.CDLL(None)
    for capability in range(64):
        libc.prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP
    libc.prctl(47, 4, 0, 0, 0)  # PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    libc.capset(header, (ctypes.c_uint32 * 6)())


def serve() -> None:
    """Answers requests until standard input ends."""
    if sys.platform == "linux":
        drop_capabilities()
    requests, responses = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)

    def converse(message: Response) -> Request:
        write_frame(responses, message)
        reply = read_frame(requests)
        if reply is None:
            sys.exit()  # the caller has ended
        return reply

    while (request := read_frame(requests)) is not None:
        try:
            answer = HANDLERS[request["do"]](request, converse)
        except Exception as error:
            answer = {"failure": f"{type(error).__name__}: {error!s:.300}"}
        write_frame(responses, answer)


if __name__ == "__main__":
    serve()
