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
    for env_id, models in content["environments"].items():
        for name, found in models.items():
            for policy, numbers in found["agents"].items():
                success = f"{100 * numbers['success'][0]:.0f} %"
                rows.append((env_id, NAMES[name], policy, interval(numbers["reward"]), success))
    return table(("Environment", "Model", "Policy", "Reward", "Success"), rows)


def pretrained_gain() -> str:
    """Returns the mean gain in reward by RL of each model, task by task."""
    content = results_if_any("pretrained")
    if content is None:
        return NOTHING
    rows = []
    for env_id, models in content["environments"].items():
        gains = ("{:+.2f} [{:+.2f}, {:+.2f}]".format(*found["gain"]) for found in models.values())
        rows.append((env_id, *gains))
    return table(("Gain of RL in reward", *NAMES.values()), rows)


BLOCKS = {block.__name__: block for block in (pretrained, pretrained_gain)}
