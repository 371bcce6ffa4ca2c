"""Results files and Markdown tables, for the modules that write figures of the documentation."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterable, Sequence
from typing import Any

from benchmarks.shared.result_files import RESULTS

NOTHING = "No results yet."
"""Takes the place of a table without results."""


def results(name: str) -> Any:
    """Returns the content of a results file."""
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def results_if_any(name: str) -> dict[str, Any] | None:
    """Returns the content of a results file, or None if it does not exist."""
    return results(name) if (RESULTS / f"{name}.json").exists() else None


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a Markdown table whose columns after the first are aligned to the right."""
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def interval(estimate: Sequence[float]) -> str:
    """Returns a mean with its limits, such as 0.86 [0.83, 0.90]."""
    mean, low, high = estimate
    return f"{mean:.2f} [{low:.2f}, {high:.2f}]"


def percent_interval(estimate: Sequence[float]) -> str:
    """Returns a share with its limits in percent, such as 86 [83, 90]."""
    mean, low, high = (100 * x for x in estimate)
    return f"{mean:.0f} [{low:.0f}, {high:.0f}]"


def digest_of(content: Any) -> str:
    """Returns a digest of the results that a picture shows, which the picture carries."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def png_of(figure: Any, digest: str, dpi: int = 110) -> bytes:
    """Returns a figure of matplotlib as PNG, with the digest of its results in the metadata."""
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=dpi, metadata={"Software": None, "Source": digest})
    return out.getvalue()
