"""The table of `own_documents.py` for the documentation."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from statistics import fmean

from benchmarks.shared.figure_results import NOTHING, table
from benchmarks.shared.result_files import RESULTS


def own_documents(path: Path = RESULTS / "own_documents.json") -> str:
    """Returns the success of the policies, or a note without results."""
    if not path.exists():
        return NOTHING
    content = json.loads(path.read_text(encoding="utf-8"))
    runs, constant = content["runs"], content["constant"]
    rows = [(f"always `{constant['answer']}`", f"{100 * constant['success']:.0f}", "")]
    for name, label in (("clone", "clone of the expert"), ("RL", "clone, then GiGPO")):
        shares = [100 * run[name]["success"][0] for run in runs]
        seeds = ", ".join(f"{share:.0f}" for share in shares)
        rows.append((label, f"{fmean(shares):.0f}", seeds))
    mean, low, high = (100 * x for x in content["difference"])
    rows.append(("RL minus clone [95 %]", f"{mean:+.0f} [{low:+.0f}, {high:+.0f}]", ""))
    return table(("Policy", "Right answers (%)", "Seeds"), rows)


BLOCKS: dict[str, Callable[[], str]] = {"own_documents": own_documents}
