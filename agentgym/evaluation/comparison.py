"""Comparison of training runs over seeds: groups of runs, their statistics and a table.

A group holds the runs of a recipe with the same settings and other seeds. Its number is the
interquartile mean of the runs' held-out returns, with a bootstrap interval, which stays in the
range of the runs, and the probability that a run is better than one of the first group (Agarwal et
al., arXiv 2108.13264; see `agentgym.evaluation.bootstrap`).
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import fmean
from typing import Any

from agentgym.evaluation.bootstrap import interquartile_mean, interval, probability_of_improvement
from agentgym.evaluation.report import Estimate
from agentgym.evaluation.runs import TrainingRun
from agentgym.utils import serialization
from agentgym.utils.files import shown

Strata = tuple[tuple[float, ...], ...]
"""Scores of runs by environment or setting."""
WIDTH = 80
FEW = 5
"""From this number of runs on, an interval says more than the runs themselves."""
WITHOUT_EFFECT = frozenset(
    "recipe seed run_dir resume quiet threads log_with transcripts save_every save_minutes keep "
    "device".split()
)
"""Settings that do not change the results of a run, and those that have a place of their own."""
ENVIRONMENT = frozenset(("env_id", "env_kwargs"))
"""Settings of `TrainingRun.env`."""


@dataclass(frozen=True)
class Group:
    """The runs of a recipe with the same settings.

    Attributes:
        name: the recipe and the settings that tell the groups apart, such as `poad lr=0.001`.
        runs: the runs that have been evaluated.
        notes: sentences about runs that failed or are left out.
    """

    name: str
    runs: tuple[TrainingRun, ...]
    notes: tuple[str, ...] = ()

    @property
    def finished(self) -> list[TrainingRun]:
        """The runs that have ended."""
        return [run for run in self.runs if run.finished]

    @property
    def env(self) -> str:
        """The environment of its runs."""
        return self.runs[0].env if self.runs else ""


@dataclass(frozen=True)
class Row:
    """A row of the table.

    Attributes:
        name: the name of the group.
        rewards: the held-out return of each finished run.
        seeds: their seeds, none in a row of several groups.
        unfinished: number of runs that have been evaluated and have not finished.
        reward: interquartile mean of `rewards`, without an interval for a single run. None: no run
            has finished.
        better: probability that a run is better than one of the first group with the same
            environment. None for that group itself.
        reference: the name of that group, "" without `better`.
        training_return: mean return on training tasks in the second half of the runs.
        env_steps: environment steps per run, the mean.
        tokens: action tokens per run, the mean.
        seconds: duration per run, the mean.
        notes: sentences about runs that failed or are left out.
    """

    name: str
    rewards: tuple[float, ...] = ()
    seeds: tuple[int, ...] = ()
    unfinished: int = 0
    reward: Estimate | None = None
    better: Estimate | None = None
    reference: str = ""
    training_return: float | None = None
    env_steps: float = 0.0
    tokens: float = 0.0
    seconds: float = 0.0
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Returns the row as JSON values."""
        return serialization.to_json(self)


def grouped(runs: Sequence[TrainingRun]) -> list[Group]:
    """Returns the groups of runs that differ in their seeds only, in the order of the runs.

    Args:
        runs: the runs. A second run with the same settings and the same seed is left out of its
            group, because it adds no evidence. A note names it.
    """
    names = _names(runs)
    found: dict[str, dict[int, TrainingRun]] = {}
    notes: dict[str, list[str]] = {}
    for run, name in zip(runs, names, strict=True):
        kept = found.setdefault(name, {})
        other = kept.setdefault(run.seed, run)
        if other is run:
            continue
        if run.finished and not other.finished:
            kept[run.seed], run, other = run, other, run
        notes.setdefault(name, []).append(
            f"left out: {shown(run.folder)}, which has the settings and the seed of "
            f"{shown(other.folder)}"
        )
    return [
        Group(name, tuple(members.values()), tuple(notes.get(name, ())))
        for name, members in found.items()
    ]


def _names(runs: Sequence[TrainingRun]) -> list[str]:
    """Returns the recipe of each run, with the settings in which runs of this recipe differ.

    The environment is named if any two runs differ in it.
    """
    several = len({run.env for run in runs}) > 1
    shown = {recipe: _distinctive(recipe, runs) for recipe in {run.recipe for run in runs}}
    names = []
    for run in runs:
        words = [run.recipe, *([run.env] if several else [])]
        words += [
            f"{name}={_shown(run, name)}" for name in shown[run.recipe] if name in run.settings
        ]
        names.append(" ".join(words))
    return names


def _distinctive(recipe: str, runs: Sequence[TrainingRun]) -> list[str]:
    """Returns the settings that tell the runs of a recipe apart, besides the environment.

    A setting that some runs do not have belongs to another one, or has no value there. It is
    returned only if the runs would be alike without it.
    """
    members = [run for run in runs if run.recipe == recipe]
    known = dict.fromkeys(name for run in members for name in run.settings)
    differ = [
        name
        for name in known.keys() - WITHOUT_EFFECT - ENVIRONMENT
        if len({_shown(run, name) for run in members}) > 1
    ]
    order = list(known)
    everywhere = [name for name in differ if all(name in run.settings for run in members)]
    found = sorted(everywhere, key=order.index)
    for name in sorted(set(differ) - set(found), key=order.index):
        if len(_kinds(members, [*found, name])) > len(_kinds(members, found)):
            found.append(name)
    return found


def _kinds(runs: Sequence[TrainingRun], names: Sequence[str]) -> set[tuple[str, ...]]:
    return {(run.env, *(_shown(run, name) for name in names)) for run in runs}


def _shown(run: TrainingRun, name: str) -> str:
    """Returns the value of a setting as a short text, "" if the run does not have it."""
    value = run.settings.get(name, "")
    if isinstance(value, (dict, list)):
        return json.dumps(value, separators=(",", ":")).replace('"', "")
    return str(value)


def compare_groups(groups: Sequence[Group]) -> list[Row]:
    """Returns a row for each group. Its first group is the reference of an environment."""
    first: dict[str, Group] = {}
    for group in groups:
        if group.finished:
            first.setdefault(group.env, group)
    rows = []
    for group in groups:
        reference = first.get(group.env, group)
        row = pooled(group.name, [group], None if reference is group else [reference])
        seeds = tuple(run.seed for run in group.finished)
        named = reference.name if row.better else ""
        rest = len(group.runs) - len(seeds)
        rows.append(replace(row, seeds=seeds, unfinished=rest, notes=group.notes, reference=named))
    return rows


def pooled(name: str, groups: Sequence[Group], others: Sequence[Group] | None = None) -> Row:
    """Returns a row of the finished runs of several groups, which are the strata of the bootstrap.

    Args:
        name: the name of the row.
        groups: the groups.
        others: the groups whose runs they are compared with, in the same order.
    """
    runs = [run for group in groups for run in group.finished]
    if not runs:
        return Row(name)
    returns = [run.training_return for run in runs if run.training_return is not None]
    pairs = zip(groups, others or (), strict=others is not None)
    pairs = [(_rewards(one), _rewards(other)) for one, other in pairs]
    pairs = [(one, other) for one, other in pairs if one and other]
    return Row(
        name,
        rewards=tuple(run.reward for run in runs),
        reward=mean_of(tuple(_rewards(group) for group in groups if group.finished)),
        better=better_than(*zip(*pairs, strict=True)) if pairs else None,
        training_return=fmean(returns) if returns else None,
        env_steps=fmean(run.env_steps for run in runs),
        tokens=fmean(run.tokens for run in runs),
        seconds=fmean(run.seconds for run in runs),
    )


def _rewards(group: Group) -> tuple[float, ...]:
    return tuple(run.reward for run in group.finished)


@lru_cache(4096)
def mean_of(scores: Strata) -> Estimate:
    """Returns the interquartile mean of runs with its interval, which a single run does not have.

    Args:
        scores: scores of the runs, by environment or setting. Each of them is resampled.
    """
    if sum(map(len, scores)) == 1:
        return Estimate(interquartile_mean(scores), None, None)
    return interval(interquartile_mean, scores)


@lru_cache(4096)
def better_than(scores: Strata, others: Strata) -> Estimate | None:
    """Returns the probability that a run is better than another one, None for single runs.

    Args:
        scores: scores of the runs, by environment or setting.
        others: scores of the other runs, in the same order.
    """
    if all(len(each) == 1 for each in (*scores, *others)):
        return None
    return interval(probability_of_improvement, scores, others)


def table(
    rows: Sequence[Row], *, training: bool = False, title: str = "", caption: bool = True
) -> str:
    """Returns the rows as text, at most 80 characters wide.

    Args:
        rows: the rows.
        training: whether to show the return on training tasks, by which settings are selected.
        title: the title of the column of names, of up to ten characters.
        caption: whether to explain the columns below.
    """
    columns = ["train"] * training + ["steps", "tokens", "time"]
    heading = _cells("runs", "held-out return", "better %", columns)
    lines = [f"{title:<{WIDTH - len(heading)}}{heading}"]
    for row in rows:
        lines += _lines(row, training)
    if not caption:
        return "\n".join(lines)
    return "\n".join([*lines, "", *_caption(rows, training)])


def _lines(row: Row, training: bool) -> list[str]:
    if row.reward is None:
        lines = [row.name, "  no finished run"]
    else:
        numbers = [compact(row.env_steps), compact(row.tokens), duration(row.seconds)]
        if training:
            returns = row.training_return
            numbers.insert(0, "-" if returns is None else number(returns))
        cells = _cells(str(len(row.rewards)), estimate(row.reward), _percent(row.better), numbers)
        lines = [f"{row.name:<{WIDTH - len(cells)}}{cells}"]
        if len(lines[0]) > WIDTH:
            lines = [*textwrap.wrap(row.name, WIDTH), f"{cells:>{WIDTH}}"]
    if 1 < len(row.seeds) < FEW:
        seeds = " ".join(map(str, row.seeds))
        lines.append(f"  seeds {seeds}: {' '.join(map(number, row.rewards))}")
    if row.unfinished:
        lines.append(f"  unfinished: {row.unfinished}")
    for note in row.notes:
        lines += textwrap.wrap(note, WIDTH, initial_indent="  ", subsequent_indent="    ")
    return lines


def _caption(rows: Sequence[Row], training: bool) -> list[str]:
    texts = [
        "held-out return: interquartile mean of the last evaluations [95 % bootstrap interval]."
    ]
    references = list(dict.fromkeys(row.reference for row in rows if row.reference))
    if references:
        first = references[0] if len(references) == 1 else "the first row of its environment"
        texts.append(f"better: probability that a run is better than one of {first}.")
    if training:
        texts.append("train: mean return on training tasks in the second half, which selects.")
    texts.append("steps, tokens, time: mean per run.")
    if any(1 < len(row.seeds) < FEW for row in rows):
        texts.append(f"Intervals over fewer than {FEW} runs are too narrow.")
    return textwrap.wrap(" ".join(texts), WIDTH)


def _cells(runs: str, reward: str, better: str, numbers: Iterable[str]) -> str:
    return f" {runs:>4} {reward:>22} {better:>13}" + "".join(f" {each:>6}" for each in numbers)


def _percent(found: Estimate | None) -> str:
    if found is None:
        return "-"
    if found.low is None or found.high is None:
        return f"{100 * found.mean:.0f}"
    return f"{100 * found.mean:.0f} [{100 * found.low:.0f}, {100 * found.high:.0f}]"


def estimate(found: Estimate) -> str:
    """Returns a mean with its interval as text."""
    if found.low is None or found.high is None:
        return number(found.mean)
    return f"{number(found.mean)} [{number(found.low)}, {number(found.high)}]"


def number(value: float) -> str:
    """Returns a return as text of at most 6 characters, or of 8 beyond a million."""
    size = abs(value)
    if size < 9.9995:
        return f"{value:.3f}"
    if size < 999.95:
        return f"{value:.1f}"
    return compact(value) if size < 1e12 else f"{value:.1e}"


def compact(value: float) -> str:
    """Returns a large number as text, such as 950, 4.1k or 1.2M."""
    if abs(value) < 999.5:
        return f"{value:.0f}"
    for unit in ("k", "M", "G"):
        value /= 1000
        if abs(value) < 999.5 or unit == "G":
            break
    return f"{value:.1f}{unit}" if abs(value) < 99.95 else f"{value:.0f}{unit}"


def duration(seconds: float) -> str:
    """Returns a duration as text: 15s, 12m or 3.4h."""
    if seconds < 99.5:
        return f"{seconds:.0f}s"
    return f"{seconds / 60:.0f}m" if seconds < 99.5 * 60 else f"{seconds / 3600:.1f}h"
