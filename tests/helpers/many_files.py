"""Processes with many open files, whose numbers `select` does not take."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

FILES, NEEDED = 1100, 1500


@contextmanager
def many_files() -> Iterator[None]:
    """Returns a context in which every new file has a number above 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < NEEDED:
        pytest.skip(f"a process may have {hard} open files only")
    with ExitStack() as stack:
        limit = 4096 if hard == resource.RLIM_INFINITY else min(4096, hard)
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
        for _ in range(FILES):
            stack.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        yield
