"""Paired comparison of two evaluations: the same tasks and seeds, played before and after a change.

Episodes of the same environment, task and seed start alike, so the difference of each pair has less
noise than two separate means. Success is compared by its flips, with the exact test of McNemar and
the adjusted Wald interval of Bonett and Price.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean
from typing import Any, Literal

from agentgym.errors import ConfigError
from agentgym.evaluation.report import Z_95, Estimate, Record, mean_interval
from agentgym.evaluation.saved_evaluations import Evaluation
from agentgym.time_step import UNJUDGED
from agentgym.utils import serialization

Metric = Literal["success", "progress", "reward"]
METRICS: tuple[Metric, ...] = ("success", "progress", "reward")
POOLED: tuple[Metric, ...] = ("success", "progress")
"""Metrics with the same scale in all environments."""
Pair = tuple[Record, Record]
ALL = "all environments"


@dataclass(frozen=True)
class Change:
    """A metric before and after.

    Attributes:
        before: its mean over the pairs in the first evaluation.
        after: that in the second one.
        difference: after - before, with its 95 % interval.
        floor: the largest difference between two of the first evaluation and its reruns. None:
            there are no reruns.
    """

    before: float
    after: float
    difference: Estimate
    floor: float | None = None


@dataclass(frozen=True)
class Comparison:
    """Two evaluations in an environment.

    Attributes:
        env: the environment, or `ALL`.
        pairs: number of pairs.
        tasks: number of their tasks.
        unpaired: number of episodes that only one of the two evaluations has.
        changes: the change of each metric.
        solved: [task, seed] of the pairs that only the second evaluation solves.
        lost: those that only the first one solves.
        p: two-sided p-value of the flips, by the exact test of McNemar.
        unjudged: number of episodes of the pairs on which the verdict of a judge is unreadable.
            They count as failures, as in an evaluation.
    """

    env: str
    pairs: int
    tasks: int
    unpaired: int
    changes: dict[str, Change]
    solved: list[tuple[str, int]]
    lost: list[tuple[str, int]]
    p: float
    unjudged: int = 0

    def to_json(self) -> dict[str, Any]:
        """Returns the comparison as JSON values."""
        return serialization.to_json(self)


def compare_pairs(
    before: Evaluation, after: Evaluation, reruns: Sequence[Evaluation] = ()
) -> list[Comparison]:
    """Compares two evaluations in each of their common environments.

    With several environments, the last comparison is that of all pairs, without the reward.

    Args:
        before: the first evaluation.
        after: the second one.
        reruns: repetitions of the first one, which measure its noise.

    Raises:
        ConfigError: if two evaluations have no episode in common.
    """
    common = [env for env in before if env in after]
    found = [_compare(env, before[env], after[env], reruns) for env in common]
    if not any(each.pairs for each in found):
        raise ConfigError(
            "The evaluations have no episode in common, by environment, task and seed. Play both "
            f"with the same ids, --episodes, --split and --seed. The first one holds "
            f"{', '.join(before)}, the second one {', '.join(after)}."
        )
    if len(before) == len(after) == 1:
        return found
    before, after, *reruns = map(_pooled, (before, after, *reruns))
    both = _compare(ALL, before[ALL], after[ALL], reruns, POOLED)
    return [*(each for each in found if each.pairs), both]


def newly_solved(before: Evaluation, after: Evaluation) -> tuple[list[str], int]:
    """Returns the tasks that only the second of two evaluations solves, and the number of tasks.

    A task is solved if at least half of the common episodes succeed. With a stronger agent, or one
    with a tool, as the second one, these are tasks to learn from, neither too easy nor out of
    reach: DeepEyesV2 (arXiv 2511.05271) trains on tasks that tools solve, and not the model alone.

    Args:
        before: the first evaluation, such as that of a weak agent or of one without a tool.
        after: the second one.

    Raises:
        ConfigError: if they are not of one environment, the same in both.
    """
    common = [env for env in before if env in after]
    if len(common) != 1 or len(before) > 1 or len(after) > 1:
        raise ConfigError(
            "Tasks are chosen in one environment: expected two evaluations of the same one, got "
            f"{', '.join(before)} and {', '.join(after)}."
        )
    [old], [new] = before.values(), after.values()
    outcomes: dict[str, list[tuple[bool, bool]]] = {}
    for (task, seed), record in old.items():
        if (task, seed) in new:
            pair = record.success, new[task, seed].success
            outcomes.setdefault(task, []).append(pair)
    shares = {
        task: [fmean(side) for side in zip(*each, strict=True)] for task, each in outcomes.items()
    }
    found = [task for task, (one, other) in shares.items() if one < 0.5 <= other]
    return found, len(outcomes)


def _pooled(evaluation: Evaluation) -> Evaluation:
    """Returns all episodes as those of one environment, whose tasks begin with the former one."""
    return {
        ALL: {
            (f"{env} {task}", seed): record
            for env, episodes in evaluation.items()
            for (task, seed), record in episodes.items()
        }
    }


def _compare(
    env: str,
    before: Mapping[tuple[str, int], Record],
    after: Mapping[tuple[str, int], Record],
    reruns: Sequence[Evaluation],
    metrics: Sequence[Metric] = METRICS,
) -> Comparison:
    pairs = {start: (record, after[start]) for start, record in before.items() if start in after}
    if not pairs:
        return Comparison(env, 0, 0, len(before) + len(after), {}, [], [], 1.0)
    repeated = [before, *(each[env] for each in reruns if env in each)]
    solved = [start for start, (old, new) in pairs.items() if new.success > old.success]
    lost = [start for start, (old, new) in pairs.items() if new.success < old.success]
    return Comparison(
        env=env,
        pairs=len(pairs),
        tasks=len({task for task, _ in pairs}),
        unpaired=len(before) + len(after) - 2 * len(pairs),
        changes={name: _change(name, pairs, repeated) for name in metrics},
        solved=solved,
        lost=lost,
        p=mcnemar(len(solved), len(lost)),
        unjudged=sum(each.failure == UNJUDGED for pair in pairs.values() for each in pair),
    )


def _change(
    metric: Metric,
    pairs: Mapping[tuple[str, int], Pair],
    repeated: Sequence[Mapping[tuple[str, int], Record]],
) -> Change:
    old, new = ([float(getattr(pair[i], metric)) for pair in pairs.values()] for i in (0, 1))
    by_task: dict[str, list[float]] = {}
    for (task, _), a, b in zip(pairs, old, new, strict=True):
        by_task.setdefault(task, []).append(b - a)
    return Change(
        before=fmean(old),
        after=fmean(new),
        difference=paired_interval(list(by_task.values()), flips=metric == "success"),
        floor=noise_floor(metric, repeated) if len(repeated) > 1 else None,
    )


def paired_interval(differences: Sequence[Sequence[float]], *, flips: bool) -> Estimate:
    """Returns the mean difference of pairs with its 95 % interval.

    Pairs of the same task are not independent. With several of any task, the interval is the t
    interval of weighted task sums, which takes tasks as clusters. Otherwise it is the t interval of
    the differences, or `flip_interval` for flips. If flips agree in all tasks, their interval is
    that of one pair per task: the t interval would have no width, with two tasks too.

    Args:
        differences: the differences of the pairs, by task.
        flips: whether they are -1, 0 or 1.
    """
    flat = [each for task in differences for each in task]
    if len(flat) == len(differences):
        if flips:
            return flip_interval(flat.count(1.0), flat.count(-1.0), len(flat))
        return mean_interval(flat)
    mean, size = fmean(flat), len(flat) / len(differences)
    # Linearised ratio of two sums over tasks: equal to the mean per task if all have as many pairs.
    parts = [mean + (sum(task) - mean * len(task)) / size for task in differences]
    found = mean_interval(parts)
    if flips and len(parts) > 1 and max(parts) - min(parts) < 1e-9:  # tasks that agree
        up, down = (sum(task.count(sign) / len(task) for task in differences) for sign in (1, -1))
        found = flip_interval(up, down, len(differences))
    return Estimate(mean, found.low, found.high)


def flip_interval(gained: float, lost: float, pairs: int) -> Estimate:
    """Returns the difference of two paired shares with its adjusted Wald interval.

    Bonett and Price, "Adjusted Wald Confidence Interval for a Difference of Binomial Proportions
    Based on Paired Data", 2012: one more flip each way keeps the coverage with few pairs.

    Args:
        gained: number of pairs that change from 0 to 1.
        lost: number of pairs that change from 1 to 0.
        pairs: number of all pairs.
    """
    up, down = (gained + 1) / (pairs + 2), (lost + 1) / (pairs + 2)
    half = Z_95 * math.sqrt((up + down - (up - down) ** 2) / (pairs + 2))
    low, high = max(up - down - half, -1.0), min(up - down + half, 1.0)
    return Estimate((gained - lost) / pairs, low, high)


def mcnemar(gained: int, lost: int) -> float:
    """Returns the two-sided p-value of flips, the exact test of McNemar.

    It is the probability of flips that are at least as uneven if both ways are equally likely.
    """
    flips = gained + lost
    tail = sum(math.comb(flips, i) for i in range(min(gained, lost) + 1))
    return min(1.0, 2 * tail / 2**flips)


def noise_floor(metric: Metric, repeated: Sequence[Mapping[tuple[str, int], Record]]) -> float:
    """Returns the largest difference of a mean between two repetitions, over their common episodes.

    Raises:
        ConfigError: if two of them have no episode in common.
    """
    found = 0.0
    for one, other in combinations(repeated, 2):
        common = [start for start in one if start in other]
        if not common:
            raise ConfigError(
                "A rerun has no episode in common with the first evaluation or another rerun: play "
                "it with the same ids, --episodes, --split and --seed."
            )
        gaps = [
            float(getattr(other[start], metric)) - float(getattr(one[start], metric))
            for start in common
        ]
        found = max(found, abs(fmean(gaps)))
    return found
