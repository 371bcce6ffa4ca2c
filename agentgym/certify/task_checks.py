"""Checks of tasks: the splits share none, and few are equal."""

from __future__ import annotations

from agentgym.certify.findings import SEMANTIC, Finding, check
from agentgym.certify.subject import Subject, some_tasks

SAME_ANSWERS = 0.05
"""Share of test tasks whose prompt and solution may occur in training."""
DISTINCT = 0.97
"""Least share of tasks of a split that differ from the others."""
MANY = 400
"""Names of test tasks that are looked up in the training split."""


@check(
    "semantic.train_test_disjoint",
    "Generate levels with agentgym.tasks.draw_level, which gives each level one split.",
    needs=SEMANTIC,
)
def train_test_disjoint(subject: Subject) -> list[Finding]:
    """No test task is a training task under another name."""
    tasks = subject.env.tasks
    names = [task for task in some_tasks(tasks.test, MANY, "certify/names") if task in tasks.train]
    if names:
        return [Finding(f"{len(names)} names are in both splits, such as {names[0]}")]
    train, test = subject.prints
    known = {each.transcript for each in train}
    seen = [each.task for each in test if each.transcript in known]
    if seen:
        text = f"{len(seen)} of {len(test)} test tasks are training tasks, such as {seen[0]}"
        return [Finding(f"{text} ({len(train)} compared)")]
    answers = {each.answer for each in train}
    same = [each.task for each in test if each.answer in answers]
    if len(same) <= SAME_ANSWERS * len(test):
        return []
    text = f"{len(same)} of {len(test)} test tasks have the prompt and solution of a training task"
    return [Finding(f"{text}, such as {same[0]}", "warn")]


@check(
    "semantic.duplicate_tasks",
    "Draw more different levels, or name each of them once in Tasks.",
    needs=SEMANTIC,
)
def duplicate_tasks(subject: Subject) -> list[Finding]:
    """Nearly all tasks of a split differ."""
    found = []
    for split, prints in zip(("training", "test"), subject.prints, strict=True):
        different = len({each.transcript for each in prints})
        if different < DISTINCT * len(prints):
            # A birthday estimate: pairs of tasks over equal pairs.
            equal = _equal_pairs([each.transcript for each in prints])
            size = round(len(prints) * (len(prints) - 1) / 2 / equal)
            text = f"{different} of {len(prints)} {split} tasks differ, about {size} exist"
            found.append(Finding(text, "warn"))
    return found


def _equal_pairs(values: list[str]) -> int:
    counts = [values.count(value) for value in set(values)]
    return sum(count * (count - 1) // 2 for count in counts)
