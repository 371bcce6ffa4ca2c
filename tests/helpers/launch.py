"""Starts Python programs as processes of their own, forked from one that has imported the trainer.

Importing torch and transformers takes seconds, which a new interpreter would need for each program.
Tests whose programs need both cores have the mark `xdist_group("processes")`.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import runpy
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import matplotlib
import torch

from agentgym.trainers.cli import subprocesses

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    [
        *("agentgym.trainers.cli.train", "agentgym.trainers.trainer", "torch.utils.tensorboard"),
        *("matplotlib.figure", "matplotlib.backends.backend_agg"),
        "transformers.models.llama.modeling_llama",
    ]
)
OUTPUTS = ("output", "errors")


class Child:
    """A program that runs in a process of its own, like a `subprocess.Popen` with text pipes.

    Args:
        arguments: arguments of Python: `-m MODULE ...` or `-c CODE ...`.
        variables: environment variables beside those of this process.
        cwd: working folder of a program that leads a group of processes of its own.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        variables: Mapping[str, str] | None = None,
        cwd: str | None = None,
    ):
        self._folder = Path(tempfile.mkdtemp())
        environment = {**os.environ, **(variables or {})}
        for name in OUTPUTS:
            (self._folder / name).touch()
        self.process = CONTEXT.Process(
            target=_execute, args=(arguments, environment, self._folder, cwd)
        )
        self.process.start()
        self.output = self.errors = ""

    def wait(self, seconds: float = 300.0) -> int:
        """Returns the exit code and keeps the outputs. A program that takes longer is killed."""
        self.process.join(seconds)
        self.process.kill()
        self.process.join()
        self.output, self.errors = ((self._folder / name).read_text() for name in OUTPUTS)
        shutil.rmtree(self._folder)
        assert self.process.exitcode is not None
        return self.process.exitcode


class ForkedPopen:
    """Stands for `subprocess.Popen` in the module that starts the runs of sweeps.

    Args:
        command: a program of this interpreter.
        env: the environment variables.
        **pipes: text pipes, which it has anyway.
    """

    def __init__(self, command: Sequence[str], *, env: Mapping[str, str], **pipes: object):
        assert command[0] == sys.executable
        self._child = Child(command[1:], env)
        self.returncode = 0

    def __enter__(self) -> ForkedPopen:
        return self

    def __exit__(self, *error: object) -> None:
        self._child.process.kill()

    def communicate(self) -> tuple[str, str]:
        """Waits for the end of the program and returns its outputs."""
        self.returncode = self._child.wait()
        return self._child.output, self._child.errors

    def terminate(self) -> None:
        """Tells the program to stop."""
        self._child.process.terminate()


def fork_runs(change: Callable[[Any, str, Any], None] = setattr) -> None:
    """Forks the runs of sweeps.

    Args:
        change: sets an attribute, such as `monkeypatch.setattr`.
    """
    forking = {**vars(subprocess), "Popen": ForkedPopen}
    change(subprocesses, "subprocess", SimpleNamespace(**forking))


def run_forked(
    command: Sequence[str],
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    **pipes: object,
) -> SimpleNamespace:
    """Stands for `subprocess.run` with a program of this interpreter.

    Args:
        command: the interpreter, and `-m MODULE`, `-c CODE` or a script with its arguments.
        env: the environment variables.
        cwd: the working folder.
        **pipes: text pipes, which it has anyway.
    """
    assert command[0] == sys.executable
    words = [*command[1:]]
    if words[0] not in ("-m", "-c"):
        run = "import runpy, sys; sys.argv = {}; runpy.run_path(sys.argv[0], run_name='__main__')"
        words = ["-c", run.format(words)]
    child = Child(words, env, cwd)
    code = child.wait()
    return SimpleNamespace(returncode=code, stdout=child.output, stderr=child.errors)


class ForkedKernel:
    """Stands for the `subprocess.Popen` of a notebook's kernel.

    Args:
        command: a program of this interpreter.
        env: the environment variables.
        cwd: the working folder.
        **others: pipes, of which it has none.
    """

    stdin = stdout = stderr = None

    def __init__(self, command: Sequence[str], *, env: Mapping[str, str], cwd: str, **others: Any):
        assert command[0] == sys.executable
        # Set by the kernel, too, but read when matplotlib is imported.
        shown = {"MPLBACKEND": "module://matplotlib_inline.backend_inline"}
        self._child = Child(command[command.index("-m") :], {**env, **shown}, cwd)
        process = self._child.process
        self.pid, self.poll, self.wait = process.pid, lambda: process.exitcode, self._child.wait
        self.kill, self.terminate = process.kill, process.terminate
        assert self.pid is not None
        while os.getpgid(self.pid) != self.pid:  # signals go to its group, which is not ours
            time.sleep(0.001)

    def send_signal(self, number: int) -> None:
        """Sends a signal."""
        assert self.pid is not None
        os.kill(self.pid, number)


def fork_kernels(change: Callable[[Any, str, Any], None] = setattr) -> None:
    """Forks the kernels of notebooks.

    Args:
        change: sets an attribute, such as `monkeypatch.setattr`.
    """
    from jupyter_client.provisioning import local_provisioner

    change(local_provisioner, "launch_kernel", ForkedKernel)


def _execute(
    arguments: Sequence[str], environment: dict[str, str], folder: Path, cwd: str | None
) -> None:
    if cwd is not None:
        os.setsid()
        os.chdir(cwd)
    if "MPLBACKEND" in environment:
        matplotlib.rcParams["backend"] = environment["MPLBACKEND"]
    if environment.get("PYTHONWARNINGS") == "ignore":
        warnings.simplefilter("ignore")
    gc.freeze()  # all that was imported: the collector need not look at it again and again
    torch.set_num_threads(1)
    os.environ.clear()
    os.environ.update(environment)
    for number, name in enumerate(OUTPUTS, start=1):
        os.dup2(os.open(folder / name, os.O_WRONLY | os.O_APPEND), number)
    kind, program = arguments[:2]
    sys.argv = [kind, *arguments[2:]]
    if kind == "-m":
        runpy.run_module(program, run_name="__main__", alter_sys=True)
    else:
        exec(compile(program, "<string>", "exec"), {"__name__": "__main__"})


def launch(arguments: Sequence[str], processes: int = 1) -> list[Child]:
    """Starts a program as several processes that find each other, as `torchrun` does.

    Args:
        arguments: arguments of Python. `-m tests.helpers.NAME` finds the modules beside this one.
        processes: number of processes, with gloo on the CPU. 1 starts it without variables of
            torchrun.
    """
    if processes == 1:
        return [Child(arguments)]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    number = str(processes)
    common = {"WORLD_SIZE": number, "LOCAL_WORLD_SIZE": number, "ACCELERATE_USE_CPU": "true"}
    common |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    ranks = map(str, range(processes))
    return [Child(arguments, {**common, "RANK": rank, "LOCAL_RANK": rank}) for rank in ranks]


def finish(children: Sequence[Child], code: int = 0) -> list[str]:
    """Waits for programs, checks their exit codes and returns their standard errors."""
    try:
        codes = [child.wait() for child in children]
    finally:
        for child in children:
            child.process.kill()
    for child, found in zip(children, codes, strict=True):
        assert found == code, child.errors[-3000:]
    return [child.errors for child in children]
