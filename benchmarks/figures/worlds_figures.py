"""The table of `worlds.py` for the documentation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.figures.compose_figures import shown
from benchmarks.shared.figure_results import NOTHING, results_if_any, table

COLUMNS = {
    "same": "the same world",
    "inverse": "names swapped",
    "changes": "changes only",
    "hidden": "a variable hidden",
    "new": "new worlds",
}
ROWS = {"one": "one world", "many": "many worlds"}


def table_of(policies: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Returns the success of each policy by what it plays, in percent with intervals over seeds."""
    rows = [
        (
            ROWS[trained],
            *(
                shown([100 * run[name]["success"][0] for run in runs], ".0f", 0.0)
                for name in COLUMNS
            ),
        )
        for trained, runs in policies.items()
    ]
    return table(("cloned on", *COLUMNS.values()), rows)


def worlds() -> str:
    """Returns the table, or a note without results."""
    content = results_if_any("worlds")
    return NOTHING if content is None else table_of(content["policies"])


BLOCKS: dict[str, Callable[[], str]] = {"worlds": worlds}
