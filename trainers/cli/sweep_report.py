"""The tables of a sweep: by recipe and setting, by value, and the best of n settings."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from agentgym.evaluation.bootstrap import best_of
from agentgym.evaluation.comparison import Group, compare_groups, estimate, pooled, table
from agentgym.evaluation.runs import TrainingRun
from agentgym.trainers.cli.sweep_settings import Run, Setting


def tables(groups: Sequence[Group], results: Mapping[Run, TrainingRun]) -> str:
    """Returns the results as text.

    If settings vary, further tables have the runs of each recipe and value, and the expected
    held-out return of the best of n random settings of a recipe (see `bootstrap.best_of`).

    Args:
        groups: the runs by recipe and setting.
        results: the finished runs, at least one.
    """
    varies = any(run.setting for run in results)
    parts = [table(compare_groups(groups), training=varies)]
    axes = len({run.recipe for run in results}) > 1
    axes += max(len(run.setting) for run in results)
    if axes > 1:
        parts.append(by_value(results))
    if varies:
        parts += [best_settings(recipe, results) for recipe in _recipes(results)]
    return "\n\n".join(parts)


def by_value(results: Mapping[Run, TrainingRun]) -> str:
    """Returns the table of the runs of each recipe and value, over all other settings."""
    rows, recipes = [], _recipes(results)
    if len(recipes) > 1:
        known = {recipe: _by_setting(recipe, results) for recipe in recipes}
        first = known[recipes[0]]
        for recipe in recipes:
            groups = known[recipe]
            others = None if recipe == recipes[0] else [first.get(s, _none(s)) for s in groups]
            rows.append(pooled(recipe, list(groups.values()), others))
    values = dict.fromkeys(value for run in results for value in run.setting)
    for name, value in sorted(values):
        members = {run: result for run, result in results.items() if (name, value) in run.setting}
        groups = [each for recipe in recipes for each in _by_setting(recipe, members).values()]
        rows.append(pooled(f"{name}={value}", groups))
    return table(rows, training=True, title="by value", caption=False)


def best_settings(recipe: str, results: Mapping[Run, TrainingRun]) -> str:
    """Returns the expected held-out return of the best of n random settings of a recipe."""
    groups = [group.finished for group in _by_setting(recipe, results).values()]
    selection = [[run.training_return or 0.0 for run in runs] for runs in groups]
    rewards = [[run.reward for run in runs] for runs in groups]
    lines = [f"held-out return of the best of n settings of {recipe}, selected by training"]
    for n in itertools.takewhile(lambda n: n <= len(groups), (1, 2, 4, 8, 16, 32, 64)):
        lines.append(f"  n = {n:<3}{estimate(best_of(n, selection, rewards)):>24}")
    return "\n".join(lines)


def _recipes(results: Mapping[Run, TrainingRun]) -> list[str]:
    return list(dict.fromkeys(run.recipe for run in results))


def _by_setting(recipe: str, results: Mapping[Run, TrainingRun]) -> dict[Setting, Group]:
    found: dict[Setting, list[TrainingRun]] = {}
    for run, result in results.items():
        if run.recipe == recipe:
            found.setdefault(run.setting, []).append(result)
    return {setting: Group(str(setting), tuple(runs)) for setting, runs in found.items()}


def _none(setting: Setting) -> Group:
    return Group(str(setting), ())
