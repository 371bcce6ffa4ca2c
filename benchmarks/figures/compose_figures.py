"""The table of `compose.py` for the documentation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agentgym.evaluation.report import mean_interval
from benchmarks.shared.figure_results import NOTHING, results_if_any, table

COLUMNS = {"single": "single tasks", "pairs": "trained pairs", "held-out pair": "held-out pair"}


def table_of(policies: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Returns the success of each policy by what it plays, in percent with intervals over seeds."""
    shares = {
        trained: [[100 * run[name]["success"][0] for run in runs] for name in COLUMNS]
        for trained, runs in policies.items()
    }
    rows = [
        (trained, *(shown(each, ".0f", 0.0) for each in columns))
        for trained, columns in shares.items()
    ]
    if len({len(runs) for runs in policies.values()}) == 1 and len(policies) == 2:
        pairs = zip(*shares.values(), strict=True)
        gains = [[b - a for a, b in zip(*pair, strict=True)] for pair in pairs]
        rows.append(("difference", *(shown(each, "+.0f", -100.0) for each in gains)))
    return table(("cloned on", *COLUMNS.values()), rows)


def shown(values: Sequence[float], form: str, least: float) -> str:
    """Returns the mean with its interval over seeds, within the range of the values."""
    found = mean_interval(values)
    if found.low is None or found.high is None:
        return f"{found.mean:{form}}"
    return f"{found.mean:{form}} [{max(found.low, least):{form}}, {min(found.high, 100):{form}}]"


def combinations() -> str:
    """Returns the table, or a note without results."""
    content = results_if_any("compose")
    return NOTHING if content is None else table_of(content["policies"])


BLOCKS: dict[str, Callable[[], str]] = {"combinations": combinations}
