"""Learning rates of `evidence_queue.py`, tuned equally for all recipes, on training tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

RATES = (1e-4, 3e-5)
"""The rates of which each recipe uses the better one. The first is that of the file.

The second one was 3e-4 before, at which episodes of several turns lost what their clone knew within
one update, with adapters of queries and values.
"""


def late_return(run: Mapping[str, Any]) -> float:
    """Returns the mean return of the last quarter of a run's iterations, on training tasks."""
    returns = [value for _, value in run["training_return"]]
    return float(np.mean(returns[-max(1, len(returns) // 4) :]))


def tuned(runs: Iterable[Mapping[str, Any]]) -> float:
    """Returns the rate of the best of some runs of a recipe with different rates."""
    return max(runs, key=late_return)["lr"]
