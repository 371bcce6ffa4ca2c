"""The figures of the estimators on recurring states (`graph_oracle.py`) for the documentation."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from benchmarks.shared.figure_results import results, table

Rows = Mapping[str, Mapping[str, Mapping[str, float]]]


def _cell(summary: Mapping[str, float] | None) -> str:
    """Returns a mean with twice its standard error, a dash if it was not measured."""
    if summary is None:
        return "-"
    return f"{summary['mean']:.2f} ± {2 * summary['error']:.2f}"


def _table(rows_by_kind: Mapping[str, Rows], columns: Mapping[str, tuple[str, str]]) -> str:
    """Returns a table of estimators.

    Args:
        rows_by_kind: results by kind of world, estimator and measure.
        columns: kind and measure by heading.
    """
    names = next(iter(rows_by_kind.values()))
    rows = [
        (name, *(_cell(rows_by_kind[kind][name].get(key)) for kind, key in columns.values()))
        for name in names
    ]
    return table(("Estimator", *columns), rows)


def graph_gradients() -> str:
    """Returns the cosines with the exact gradient."""
    found = results("graph_oracle")
    columns = {}
    for kind, rate in found["success"].items():
        columns |= {
            f"{kind} ({rate:.2f}): mean": (kind, "bias"),
            f"{kind}: one group": (kind, "group"),
        }
    return _table(found["gradients"], columns | {"slips: failing group": ("slips", "failing")})


def graph_learning() -> str:
    """Returns the success rates after updates."""
    found = results("graph_oracle")
    updates = found["settings"]["updates"]
    columns = {
        f"{kind}, {update}": (kind, str(update)) for kind in found["learning"] for update in updates
    }
    return _table(found["learning"], columns)


def graph_summary() -> str:
    """Returns how close gradients of one group are to the exact one, as a part of a sentence."""
    rows = results("graph_oracle")["gradients"]["slips"]
    one, other = (f"{rows[name]['group']['mean']:.2f}" for name in ("GAGPO", "GiGPO"))
    return f"`gagpo` has a cosine of {one} with the exact gradient per group, `gigpo` {other}"


BLOCKS: dict[str, Callable[[], str]] = {
    function.__name__: function for function in (graph_gradients, graph_learning, graph_summary)
}
