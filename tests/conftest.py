"""Fixtures shared by several test modules."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

import agentgym

# No test may depend on the speed of the machine.
settings.register_profile("agentgym", deadline=None)
settings.load_profile("agentgym")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write the golden files instead of comparing with them; review the diff",
    )


def _slow_ids() -> set[str]:
    """Returns ids with an engine of an extra, and ids that vary the arguments of an earlier id."""
    slow, seen = set(), set()
    for entry in agentgym.REGISTRY.values():
        if entry.extra is not None or entry.entry_point in seen:
            slow.add(entry.id)
        seen.add(entry.entry_point)
    return slow


@pytest.hookimpl(tryfirst=True)  # before `-m "not slow"` selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    slow = _slow_ids()
    for item in items:
        callspec = getattr(item, "callspec", None)
        if callspec is not None and callspec.params.get("id") in slow:
            item.add_marker(pytest.mark.slow)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[Path, str], None]:
    """Compares a text with a golden file, or writes the file under `--update-golden`."""

    def check(file: Path, text: str) -> None:
        data = text.encode("utf-8", "surrogatepass")
        if request.config.getoption("--update-golden"):
            file.write_bytes(data)
        expected = file.read_bytes() if file.exists() else b""
        assert text == expected.decode("utf-8", "surrogatepass"), (
            f"{file.name} differs: if the new text is right, run pytest with --update-golden"
        )

    return check


@pytest.fixture
def global_rng_untouched() -> Iterator[None]:
    """Fails the test if it changes the state of `random` or of `numpy.random`."""
    before = random.getstate(), np.random.get_state()
    yield
    after = random.getstate(), np.random.get_state()
    assert after[0] == before[0], "the global generator of `random` was used"
    assert all(np.array_equal(x, y) for x, y in zip(after[1], before[1], strict=True)), (
        "the global generator of `numpy.random` was used"
    )
