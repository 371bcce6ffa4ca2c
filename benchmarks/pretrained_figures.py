"""Figures of `pretrained.py` in the documentation."""

from __future__ import annotations

from figure_results import NOTHING, interval, results_if_any, table

NAMES = {"smollm2": "SmolLM2-135M-Instruct", "nano": "nano, random weights"}
"""The models, as the documentation calls them."""


def pretrained() -> str:
    """Returns the results on held-out tasks of each policy."""
    content = results_if_any("pretrained")
    if content is None:
        return NOTHING
    rows = []
    for name, found in content["models"].items():
        for policy, numbers in found["agents"].items():
            shares = (f"{100 * numbers[key][0]:.0f} %" for key in ("success", "valid"))
            rows.append((NAMES[name], policy, interval(numbers["reward"]), *shares))
    return table(("Model", "Policy", "Reward", "Success", "Valid actions"), rows)


def pretrained_gain() -> str:
    """Returns the mean gain in reward by RL of each model, task by task."""
    content = results_if_any("pretrained")
    if content is None:
        return NOTHING
    gains = []
    for name, found in content["models"].items():
        gain, low, high = found["gain"]
        gains.append(f"{gain:+.2f} [{low:+.2f}, {high:+.2f}] ({NAMES[name]})")
    return f"RL adds {' and '.join(gains)} to the reward of the clone."


BLOCKS = {block.__name__: block for block in (pretrained, pretrained_gain)}
