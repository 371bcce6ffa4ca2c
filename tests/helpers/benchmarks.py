"""The scripts of `benchmarks/`, which are no package, as modules."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@contextmanager
def benchmark_script(name: str) -> Iterator[ModuleType]:
    """Imports a script. The others are importable in the block, and all are forgotten after it.

    Scripts that were imported before the block stay.
    """
    before = set(sys.modules)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHMARKS)
        try:
            yield importlib.import_module(name)
        finally:
            for new in sys.modules.keys() - before:
                if Path(getattr(sys.modules[new], "__file__", None) or "").parent == BENCHMARKS:
                    del sys.modules[new]
