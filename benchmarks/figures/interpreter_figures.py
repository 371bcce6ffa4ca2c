"""The table of `interpreter.py` for the documentation."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.shared.figure_results import NOTHING, results_if_any, table


def interpreters() -> str:
    """Returns success and undefined names by training and evaluation, or a note without results."""
    content = results_if_any("interpreter")
    if content is None:
        return NOTHING
    rows = []
    for name, cell in content["cells"].items():
        success = ", ".join(f"{100 * share:.0f}" for share in cell["success"])
        missing = ", ".join(f"{number:.2f}" for number in cell["missing_names"])
        rows.append((*name.split("/"), success, missing))
    header = ("In training", "In evaluation", "Success by seed (%)", "Undefined names per episode")
    return table(header, rows)


BLOCKS: dict[str, Callable[[], str]] = {"interpreters": interpreters}
