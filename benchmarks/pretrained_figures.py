"""The table and the picture of `pretrained.py` for the documentation."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Mapping
from typing import Any

from figure_results import NOTHING, results_if_any, table

NAMES = {"smollm2": "SmolLM2-135M-Instruct", "nano": "`nano`, random weights"}
POLICIES = {"before": "before training", "cloned": "cloned", "trained": "after RL"}


def measured() -> dict[str, Any]:
    """Returns the results by model, empty if there are none."""
    return (results_if_any("pretrained") or {"models": {}})["models"]


def pretrained_table() -> str:
    """Returns the success and the valid actions of each policy, or a note without results."""
    rows = [
        (NAMES[model], POLICIES[who], *(_cell(numbers[key]) for key in ("success", "valid")))
        for model, found in measured().items()
        for who, numbers in found["agents"].items()
    ]
    header = ("Model", "Policy", "Success", "Valid actions")
    return table(header, rows) if rows else NOTHING


def pretrained_summary() -> str:
    """Returns the gain of RL of the pre-trained model in a sentence."""
    if not (found := measured()):
        return NOTHING
    agents, gain = found["smollm2"]["agents"], found["smollm2"]["gain"]
    before, after = (agents[who]["success"][0] for who in ("cloned", "trained"))
    return (
        f"RL raises its success on held-out tasks from {before:.0%} to {after:.0%} "
        f"({gain[0]:+.2f} [{gain[1]:+.2f}, {gain[2]:+.2f}], task by task)."
    ).replace("%", " %")


def _cell(numbers: list[float]) -> str:
    return "{:.2f} [{:.2f}, {:.2f}]".format(*numbers)


def pretrained_picture() -> str:
    """Returns the picture of the curves, or a note without results."""
    return "![Success in training](pretrained.png)" if measured() else NOTHING


def picture() -> tuple[str, Callable[[], bytes]]:
    """Returns a digest of the results, and a function that draws the curves."""
    content = measured()
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    return digest, lambda: _draw(content, digest)


def _draw(models: Mapping[str, Any], digest: str) -> bytes:
    """Draws the success rates of the episodes of training."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for model, found in models.items():
        axes.plot(
            *zip(*found["curves"]["success"], strict=True), label=NAMES[model].replace("`", "")
        )
    axes.set(xlabel="episodes of RL", ylabel="success in training", ylim=(0, None))
    axes.grid(alpha=0.3)
    axes.legend()
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=110, metadata={"Software": None, "Source": digest})
    return out.getvalue()


BLOCKS: dict[str, Callable[[], str]] = {
    function.__name__: function
    for function in (pretrained_table, pretrained_summary, pretrained_picture)
}
PICTURES = {"docs/pretrained.png": picture} if measured() else {}
"""The picture of the curves, once there are results."""
