"""Figures of `pretrained.py` in the documentation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.shared.figure_results import NOTHING, interval, results_if_any, table

NAMES = {"smollm2": "SmolLM2-135M-Instruct", "nano": "nano, random weights"}
"""The models, as the documentation calls them."""


def pretrained() -> str:
    """Returns the results on held-out tasks of each policy, with the gain of RL, task by task."""
    content = results_if_any("pretrained")
    if content is None:
        return NOTHING
    header = ("Environment", "Model", "Seed", "Policy", "Reward", "Gain of RL", "Success", "Valid")
    rows = [
        (f"`{name}`", NAMES[model], seed, *cells)
        for name, found in content["environments"].items()
        for model, seeds in found["models"].items()
        for seed, result in seeds.items()
        for cells in policies(result)
    ]
    return table(header, rows)


def policies(result: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yields the cells of each policy of a model."""
    gain = "{:+.2f} [{:+.2f}, {:+.2f}]".format(*result["gain"])
    for policy, found in result["agents"].items():
        shares = (f"{100 * found[key][0]:.0f} %" for key in ("success", "valid"))
        yield policy, interval(found["reward"]), gain if policy == "trained" else "", *shares


def training() -> str:
    """Returns the success of SmolLM2 in training, in the first and in the last five iterations."""
    content = results_if_any("pretrained")
    if content is None:
        return NOTHING
    rows = []
    for name, found in content["environments"].items():
        for seed, row in found["models"].get("smollm2", {}).items():
            shares = [share for _, share in row["curves"]["success"]]
            ends = (f"{100 * sum(part) / 5:.0f} %" for part in (shares[:5], shares[-5:]))
            rows.append((f"`{name}`", seed, str(len(shares)), *ends))
    return table(("Environment", "Seed", "Iterations", "First five", "Last five"), rows)


BLOCKS = {"pretrained": pretrained, "pretrained_training": training}
