"""Tables of `decisive_token.py`, for the documentation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from figure_results import NOTHING, interval, results_if_any, table

COLUMNS = ("place", "sign", "within", "correlation")
ALIKE = ("rloo", "dr_grpo", "flow_grpo")
"""Estimators that order the tokens of an episode as `grpo` does."""


def decisive_tokens() -> str:
    """Returns how estimators order the tokens of an episode, by environment."""
    rows = [
        (env, estimator, *(interval(scores[c]) if c in scores else "-" for c in COLUMNS))
        for env, row in _environments().items()
        for estimator, scores in row["estimators"].items()
        if estimator not in ALIKE
    ]
    header = ("Environment", "Estimator", *(column.capitalize() for column in COLUMNS))
    return table(header, rows) if rows else NOTHING


def decisive_tokens_found() -> str:
    """Returns the number of decisive tokens and the explained variance of the critic."""
    rows = [
        (
            env,
            f"{row['decided']} of {row['episodes']}",
            f"{row['decided_within']}",
            f"{row['return']:.2f}",
            interval(row["explained"]),
            interval(row["possible"]),
        )
        for env, row in _environments().items()
    ]
    header = (
        "Environment", "Decided", "Of which within an action", "Return", "Explained variance",
        "Best possible",
    )  # fmt: skip
    return table(header, rows) if rows else NOTHING


def _environments() -> dict[str, Any]:
    return (results_if_any("decisive_token") or {"environments": {}})["environments"]


BLOCKS: dict[str, Callable[[], str]] = {
    function.__name__: function for function in (decisive_tokens, decisive_tokens_found)
}
