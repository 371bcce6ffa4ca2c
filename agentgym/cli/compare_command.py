"""`agentgym compare`: two evaluations of the same episodes, as a table and a gate."""

from __future__ import annotations

import json as json_module
import math
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import tyro
from rich.text import Text

from agentgym.cli.command_line import standard_output
from agentgym.cli.eval_output import write_json
from agentgym.cli.out_files import check_out_files, check_replaced
from agentgym.errors import ConfigError
from agentgym.evaluation.comparison import WIDTH, number
from agentgym.evaluation.paired import (
    POOLED,
    Change,
    Comparison,
    Metric,
    compare_pairs,
    newly_solved,
)
from agentgym.evaluation.report import Estimate
from agentgym.evaluation.saved_evaluations import read_evaluation
from agentgym.utils.printable import printable

Evaluations = tyro.conf.Positional[
    Annotated[
        tuple[Path, ...], tyro.conf.arg(metavar="BEFORE AFTER [RERUN ...]", help_behavior_hint="")
    ]
]
FAILED = 1
"""Exit status of a comparison below its threshold."""
EXAMPLES = 3
PERCENT = ("success", "progress")


def compare(
    evaluations: Evaluations,
    /,
    *,
    metric: Metric = "success",
    fail_below: float | None = None,
    json: Path | None = None,
    solved: Path | None = None,
) -> int:
    """Compare two evaluations of the same episodes: flips, paired intervals, and a gate.

    Episodes are paired by environment, task and seed. Play both with the same ids, --episodes,
    --split and --seed.

    Args:
        evaluations: Files of agentgym eval --save or --json, or folders of them: before a change,
            after it, and reruns of the first one, which measure its noise.
        metric: Metric of the gate: success, progress or reward.
        fail_below: Exit with status 1 unless the 95 % interval of the difference lies above this
            number, such as -0.05: success is then shown to fall by less than 5 points.
        json: Write the comparison, with all flips, to this file.
        solved: Write the tasks that only the second evaluation solves to this new file, such as
            tasks.json, for agentgym train --curriculum tasks.json. With several episodes of a task,
            half of them count as solved. It takes evaluations of one environment.
    """
    if len(evaluations) < 2:
        raise ConfigError(
            f"Expected two evaluations, agentgym compare BEFORE AFTER, got {len(evaluations)}."
        )
    check_out_files((json, solved), evaluations)
    check_replaced(json, "env", "pairs")
    if fail_below is not None and not math.isfinite(fail_below):
        raise ConfigError(f"--fail-below must be finite, got {fail_below}.")
    if solved is not None and (solved.suffix != ".json" or solved.exists()):
        raise ConfigError(f"--solved must be a new file that ends in .json, got {str(solved)!r}.")
    before, after, *reruns = map(read_evaluation, evaluations)
    found = compare_pairs(before, after, reruns)
    judged = found[-1]
    if fail_below is not None and metric not in judged.changes:
        raise ConfigError(
            f"--metric {metric} has another scale in each environment. With several environments, "
            f"choose {' or '.join(POOLED)}."
        )
    text, failed = "\n\n".join(map(comparison_text, found)), False
    if fail_below is not None:
        verdict, failed = gate(metric, judged.changes[metric].difference, fail_below)
        text += f"\n\n{verdict}"
    if solved is not None:
        tasks, known = newly_solved(before, after)
        text += f"\n\n{len(tasks)} of {known} tasks are solved by the second evaluation alone."
        solved.write_text(json_module.dumps(tasks, indent=0) + "\n", encoding="utf-8")
    if json is not None:
        write_json(json, [each.to_json() for each in found])
    standard_output().print(Text(printable(text)), soft_wrap=True)
    return FAILED if failed else 0


def comparison_text(found: Comparison) -> str:
    """Returns a comparison as text, at most 80 characters wide."""
    size = f"{found.pairs} pairs of {found.tasks} tasks"
    if found.unpaired:
        size += f", {found.unpaired} episodes without a partner left out"
    if found.unjudged:
        size += f", {found.unjudged} episodes with an unreadable verdict counted as failures"
    lines = textwrap.wrap(f"{found.env}: {size}", WIDTH)
    noisy = any(change.floor is not None for change in found.changes.values())
    lines.append(_row("", "before", "after", "difference [95 %]", "reruns" * noisy))
    lines += [_change_row(metric, change) for metric, change in found.changes.items()]
    flips = f"{len(found.solved)} newly solved, {len(found.lost)} lost"
    lines.append(f"  {flips} (McNemar p = {found.p:.2g})")
    for title, starts in (("solved", found.solved), ("lost", found.lost)):
        lines += _examples(title, starts)
    if noisy:
        lines.append("  reruns: largest difference between reruns of the first evaluation")
    return "\n".join(lines)


def gate(metric: str, difference: Estimate, least: float) -> tuple[str, bool]:
    """Returns the sentence about a threshold, and whether the difference fails it."""
    low, scale = difference.low, 100 if metric in PERCENT else 1
    if low is None:
        return f"FAILED: a single pair has no interval of the difference in {metric}.", True
    failed = low < least
    relation = "is below" if failed else "is not below"
    verdict = "FAILED" if failed else "PASSED"
    unit = " points" if metric in PERCENT else ""
    return (
        f"{verdict}: the difference in {metric} may be as low as {scale * low:+.3g}{unit}, which "
        f"{relation} {scale * least:+.3g}.",
        failed,
    )


def _row(name: str, before: str, after: str, difference: str, floor: str) -> str:
    return f"  {name:<12}{before:>9}{after:>9}{difference:>30}{floor:>10}".rstrip()


def _change_row(metric: str, change: Change) -> str:
    percent = metric in PERCENT
    name = f"{metric} %" if percent else metric
    floor = "" if change.floor is None else _shown(change.floor, percent)
    before, after = (_shown(each, percent) for each in (change.before, change.after))
    return _row(name, before, after, _interval(change.difference, percent), floor)


def _interval(found: Estimate, percent: bool) -> str:
    if found.low is None or found.high is None:
        return _shown(found.mean, percent, sign="+")
    low, high = (_shown(each, percent, sign="+") for each in (found.low, found.high))
    return f"{_shown(found.mean, percent, sign='+')} [{low}, {high}]"


def _shown(value: float, percent: bool, sign: str = "") -> str:
    if percent:
        return f"{100 * value:{sign}.1f}"
    return ("+" if sign and value >= 0 else "") + number(value)


def _examples(title: str, starts: Sequence[tuple[str, int]]) -> list[str]:
    """Returns the first flips of a kind as lines."""
    words = [f"{task} (seed {seed})" for task, seed in starts[:EXAMPLES]]
    more = len(starts) - len(words)
    if not words:
        return []
    text = f"{title}: {', '.join(words)}" + (f" and {more} more" if more else "")
    return textwrap.wrap(text, WIDTH, initial_indent="  ", subsequent_indent="    ")
