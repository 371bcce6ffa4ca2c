"""`success_curve`: how success changes over a stream of tasks."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from agentgym.errors import ConfigError
from agentgym.evaluation.report import Estimate, share_interval
from agentgym.evaluation.saved_evaluations import read_evaluation


def success_curve(path: str | Path, parts: int = 4) -> list[Estimate]:
    """Returns the success in each part of a stream of tasks, with 95 % intervals.

    Agents with a memory, such as `lessons`, learn on the job: "Learning on the Job: An
    Experience-Driven Self-Evolving Agent for Long-Horizon Tasks" (arXiv 2510.08002) follows their
    success over a stream. Evaluate with `--num-envs 1`, so that the episodes have an order.

    Args:
        path: a file of `agentgym eval --save` with one environment.
        parts: number of parts of about equal length.

    Raises:
        ConfigError: if the file is none, holds several environments, or has fewer episodes than
            parts.
    """
    found = read_evaluation(Path(path))
    if len(found) != 1:
        raise ConfigError(f"Expected one environment in {str(path)!r}, got {sorted(found)}.")
    [episodes] = ([*each.values()] for each in found.values())
    if not 1 <= parts <= len(episodes):
        raise ConfigError(f"parts must be 1 to {len(episodes)} (the episodes), got {parts}.")
    bounds = [len(episodes) * part // parts for part in range(parts + 1)]
    return [
        share_interval(sum(each.success for each in episodes[low:high]), high - low)
        for low, high in pairwise(bounds)
    ]
