"""The tests of the trainer on a GPU: `python -m pytest -p tests.helpers.on_gpu tests/trainers`.

Runs for which a test sets `device="cpu"` train on `--device`. The tests of functions and layers
keep their own device, and so do programs that a test starts as processes. A test or module that
needs a package that is not there is skipped, with the name of the package, and so are tests for
which a time limit leaves no time. The last lines count the tests that computed on the GPU. What an
installation of PyTorch and transformers may lack is in `benchmarks/speed/gpu_packages.txt`.
"""

from __future__ import annotations

import copy
import re
import time
from collections import Counter
from collections.abc import Generator
from typing import Any

import pytest
import torch

ON_GPU = ("gpu", True)
"""Property of the report of a test that allocated memory of the GPU."""
OURS = ("agentgym", "benchmarks", "tests")
BEFORE = pytest.StashKey[int]()
"""Bytes of the GPU that were allocated before a test."""
STARTED = time.monotonic()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("on_gpu")
    group.addoption("--device", default="cuda", help="device of the runs that tests put on a CPU")
    group.addoption(
        "--minutes", type=float, default=2.0, help="time limit, at which tests are left out"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Sends the runs of all tests to the device. Warnings of other releases are no errors."""
    device = config.getoption("--device")
    if device == "cuda" and not torch.cuda.is_available():
        raise pytest.UsageError("--device cuda needs a GPU: `--device cpu` tries the selection.")
    config.addinivalue_line("filterwarnings", "default")
    try:
        from agentgym.trainers import trainer
    except ImportError as error:
        raise pytest.UsageError(
            f"The trainer needs {error.name}: pip install {error.name}"
        ) from None
    make = trainer.make_accelerator

    def make_on_device(settings: Any, *arguments: Any) -> Any:
        if settings.model.device == "cpu":
            settings = copy.copy(settings)
            settings.model = copy.copy(settings.model)
            settings.model.device = device
        return make(settings, *arguments)

    trainer.make_accelerator = make_on_device


def missing(error: BaseException) -> str | None:
    """Returns what an error of an import or of an extra names, None if it is a module of ours."""
    from agentgym.errors import MissingExtraError

    if isinstance(error, MissingExtraError):
        return str(error)
    if isinstance(error, ModuleNotFoundError) and not str(error.name).startswith(OURS):
        return f"needs {error.name}"
    return None


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Skips a module that imports a package that is not there."""
    report = yield
    found = re.search(r"ModuleNotFoundError: No module named '([\w.]+)'", str(report.longrepr))
    if report.failed and found and not found[1].startswith(OURS):
        report.outcome = "skipped"
        report.longrepr = (str(collector.path), 0, f"Skipped: needs {found[1]}")
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Notes whether a test computes on the GPU."""
    if not torch.cuda.is_available():
        return (yield)
    torch.cuda.reset_peak_memory_stats()
    item.stash[BEFORE] = torch.cuda.memory_allocated()
    return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips the tests for which no time is left."""
    minutes = float(item.config.getoption("--minutes") or 0)
    if time.monotonic() - STARTED > 60 * minutes:
        pytest.skip(f"after the limit of {minutes:g} minutes")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Skips a test that fails for lack of a package."""
    report = yield
    if call.excinfo is not None and report.failed and (name := missing(call.excinfo.value)):
        report.outcome = "skipped"
        report.longrepr = (str(item.path), item.location[1] or 0, f"Skipped: {name}")
    before = item.stash.get(BEFORE, None)
    if before is not None and torch.cuda.max_memory_allocated() > before:
        report.user_properties.append(ON_GPU)
    return report


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Prints the device, the tests that computed on it, and why others were skipped."""
    stats, write = terminalreporter.stats, terminalreporter.write_line
    reports = [report for kind in ("passed", "failed") for report in stats.get(kind, ())]
    used = sum(ON_GPU in report.user_properties for report in reports if report.when == "call")
    card = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    write(f"{card}, torch {torch.__version__}: {used} tests computed on the GPU.")
    reasons = Counter(str(report.longrepr[2]) for report in stats.get("skipped", ()))
    for reason, count in reasons.most_common():
        write(f"{count:5d}  {reason}")
