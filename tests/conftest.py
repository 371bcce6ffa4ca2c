"""Fixtures shared by several test modules."""

from __future__ import annotations

import gc
import os
import random
import sys
import zlib
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"  # no test asks a hub, or waits for one that is not there
os.environ.setdefault("OMP_NUM_THREADS", "1")  # as the Makefile: tests run in several processes

import gymnasium
import numpy as np
import pytest
import rich.style  # noqa: F401  # draws from `random` when it is imported
from hypothesis import HealthCheck, settings

import agentgym

# No test may depend on the speed of the machine.
ANY_SPEED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("agentgym", **ANY_SPEED)
settings.register_profile("fast", max_examples=20, **ANY_SPEED)
settings.load_profile("agentgym")

os.fsync = lambda fd: None  # no test waits for the disk: what it writes may end with the machine


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write the golden files instead of comparing with them; review the diff",
    )


FAST_RECIPES = ("archer", "bc", "dpo", "grpo", "magrpo", "poad", "turn")
"""Recipes whose tests `make test-fast` runs: one for each way to assign credit."""
SLOW_KINDS = (
    "cohere", "gemma", "gemma3_text", "gpt2", "granite", "mistral", "phi", "phi3", "qwen2", "qwen3"
)  # fmt: skip
"""Architectures of models that `make test-fast` leaves out. It keeps gemma2, llama and mamba."""

LONGEST_NAME = 100


def _fast_ids() -> set[str]:
    """Returns the first id of each family of environments that needs no extra."""
    first: dict[str, str] = {}
    for entry in agentgym.REGISTRY.values():
        if entry.extra is None:
            first.setdefault(entry.entry_point.rpartition(".")[0], entry.id)
    return set(first.values())


def pytest_make_parametrize_id(val: object) -> str | None:
    """Shortens long texts: the names of all tests go from each process to the first one."""
    if isinstance(val, str | bytes) and len(val) > LONGEST_NAME:
        data = val if isinstance(val, bytes) else val.encode("utf-8", "surrogatepass")
        return f"{data[:LONGEST_NAME].decode('ascii', 'replace')}...{zlib.crc32(data):08x}"
    return None


@pytest.hookimpl(tryfirst=True)  # before `-m "not slow"` selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    fast = _fast_ids()
    for item in items:
        callspec = getattr(item, "callspec", None)
        params = {} if callspec is None else callspec.params
        id, recipe, kind = (params.get(name) for name in ("id", "recipe", "kind"))
        if (
            (id in agentgym.REGISTRY and id not in fast)
            or (recipe is not None and recipe not in FAST_RECIPES)
            or kind in SLOW_KINDS
        ):
            item.add_marker(pytest.mark.slow)
        if _shares_a_fixture(item) and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))
    if "PYTEST_XDIST_WORKER" in os.environ:
        # Short tests come last, so that no process waits long for the end of another one.
        slow = {_group(item) for item in items if item.get_closest_marker("slow")}
        items.sort(key=lambda item: _group(item) not in slow)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Leaves garbage alone while tests are imported, and later all that was imported."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
        gc.set_threshold(100_000, 50, 50)  # what the tests themselves keep is little


def pytest_sessionfinish() -> None:
    """Keeps pytest and the interpreter from searching all that is left for garbage at the end."""
    gc.collect()
    gc.freeze()


def _group(item: pytest.Item) -> str:
    """Returns what a single process runs together with a test: its group, or the test alone."""
    marker = item.get_closest_marker("xdist_group")
    return item.nodeid if marker is None else marker.args[0]


def _shares_a_fixture(item: pytest.Item) -> bool:
    """Whether a test uses a fixture of its module, which a single process then makes once."""
    used = item._fixtureinfo.name2fixturedefs.values()  # type: ignore[attr-defined]
    return any(definitions[-1].scope == "module" for definitions in used)


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


@pytest.fixture
def own_ids(tmp_path: Path) -> Iterator[None]:
    """Unregisters the ids that a test registers, and forgets the modules of its folder."""
    tables = agentgym.REGISTRY, gymnasium.registry
    before = [dict(table) for table in tables]
    yield
    for table, known in zip(tables, before, strict=True):
        for id in table.keys() - known.keys():
            del table[id]
    for name, module in [*sys.modules.items()]:
        if Path(getattr(module, "__file__", None) or "/").is_relative_to(tmp_path):
            del sys.modules[name]
