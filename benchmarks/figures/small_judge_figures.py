"""The table of `small_judge.py` for the documentation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.shared.figure_results import NOTHING, percent_interval, results_if_any, table


def table_of(content: Mapping[str, Any]) -> str:
    """Returns the measures of the judge and of the searches, in percent with their intervals."""
    judge, search = content["judge"], content["search"]

    def shown(estimate: list[float] | None) -> str:
        return "-" if estimate is None else percent_interval(estimate)

    rows = [
        ("verdicts of the judge that can be read", shown(judge["readable"])),
        ("solved episodes that the judge accepts", shown(judge["accepted solved"])),
        ("failed episodes that the judge accepts", shown(judge["accepted failed"])),
        ("values of the search that can be read", shown(search["readable"])),
        ("success of a search by a constant value", shown(search["constant"])),
        ("success of a search by the model's values", shown(search["model"])),
        ("difference of the searches, paired by task", shown(search["difference"])),
    ]
    return table(("Measure", "Percent [95 %]"), rows)


def small_judge() -> str:
    """Returns the table, or a note without results."""
    content = results_if_any("small_judge")
    return NOTHING if content is None else table_of(content)


BLOCKS: dict[str, Callable[[], str]] = {"small_judge": small_judge}
