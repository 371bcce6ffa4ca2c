"""Jobs of a benchmark in parallel. A job that fails is named at once, and the others go on."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from subprocess import CalledProcessError
from typing import Any, TypeVar

from agentgym.errors import AgentGymError
from agentgym.trainers.cli.subprocesses import as_they_end

T = TypeVar("T")


def finished(
    pool: Executor,
    function: Callable[..., T],
    jobs: Mapping[str, tuple[Any, ...]],
    failed: dict[str, BaseException],
) -> Iterator[tuple[str, T]]:
    """Runs jobs, and yields the names and the results of those that succeed, as they end.

    Args:
        pool: threads or processes. It is shut down at the end.
        function: does a job.
        jobs: the arguments of each job, by its name.
        failed: gets the errors of the other jobs. They are printed at once.
    """
    begun = {pool.submit(function, *arguments): name for name, arguments in jobs.items()}
    try:
        for job in as_they_end(begun):
            error = job.exception()
            if error is None:
                yield begun[job], job.result()
                continue
            failed[begun[job]] = error
            print(f"{begun[job]}: {error}", flush=True)
            if not isinstance(error, (AgentGymError, CalledProcessError)):
                traceback.print_exception(error)
    finally:
        pool.shutdown(cancel_futures=True)  # Ctrl-C starts no further jobs


def end(failed: Iterable[str]) -> None:
    """Ends the command with an error if jobs have failed.

    Raises:
        SystemExit: with their names.
    """
    if names := ", ".join(failed):
        raise SystemExit(f"Failed: {names}")
