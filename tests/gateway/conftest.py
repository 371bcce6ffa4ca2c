"""Servers of tests end soon after they are told to."""

from __future__ import annotations

import asyncio
from importlib.util import find_spec
from types import SimpleNamespace

import pytest


@pytest.fixture(autouse=True)
def quick_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets uvicorn look every 10 ms whether it is to end, and not every 100 ms."""
    if find_spec("uvicorn") is None:
        return
    from uvicorn import server

    sleep = asyncio.sleep
    quick = {**vars(asyncio), "sleep": lambda seconds: sleep(min(seconds, 0.01))}
    monkeypatch.setattr(server, "asyncio", SimpleNamespace(**quick))
