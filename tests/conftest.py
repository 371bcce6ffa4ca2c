"""Fixtures that several test modules use."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest


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
