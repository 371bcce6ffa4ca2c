"""Results on easy and on hard tasks: those that the scripted expert solves in few or in many turns.

AgentBoard (arXiv 2401.13178, section 3.1) splits its tasks by their number of subgoals. The number
of turns that the expert needs is known for every environment with one.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace

from agentgym.evaluation.report import Report

EXPERT = "expert"
"""Name of the agent whose turns tell how hard a task is."""
LEAST = 5
"""Least number of episodes on each side."""


def by_difficulty(report: Report, expert: Report) -> tuple[int, Report, Report] | None:
    """Returns an evaluation on easy and on hard tasks.

    Args:
        report: the evaluation of an agent.
        expert: that of the scripted expert on the same tasks.

    Returns:
        The largest number of turns of the expert in an easy task, the episodes of easy tasks and
        those of hard ones. None if the expert needs about as many turns in all tasks, or if one
        side would have fewer than `LEAST` episodes. Tasks that the expert fails are left out.
    """
    turns = {(e.task, e.seed): e.turns for e in expert.episodes if e.success}
    known = [e for e in report.episodes if (e.task, e.seed) in turns]
    if not known:
        return None
    limit = statistics.median_low(turns[e.task, e.seed] for e in known)
    easy = [e for e in known if turns[e.task, e.seed] <= limit]
    hard = [e for e in known if turns[e.task, e.seed] > limit]
    if min(len(easy), len(hard)) < LEAST:
        return None
    parts = [replace(report, episodes=part, planned=len(part)) for part in (easy, hard)]
    return limit, parts[0], parts[1]


def difficulty_lines(reports: Sequence[Report]) -> list[str]:
    """Returns a line with the success in easy and in hard tasks per agent beside the expert."""
    experts = {_place(each): each for each in reports if each.agent == EXPERT}
    lines = []
    for report in reports:
        expert = experts.get(_place(report))
        if report.agent == EXPERT or expert is None:
            continue
        found = by_difficulty(report, expert)
        if found is not None:
            limit, *parts = found
            easy, hard = (_success(part) for part in parts)
            name = f"{report.agent} on {report.env.removeprefix('AgentGym/')}"
            lines.append(
                f"{name}, success where the expert needs up to {limit} turns: {easy}; more: {hard}."
            )
    return lines


def _place(report: Report) -> str:
    return f"{report.env} {report.env_kwargs} {report.split}"


def _success(report: Report) -> str:
    share = report.aggregate()["success"]
    assert share.low is not None and share.high is not None
    low, high = 100 * share.low, 100 * share.high
    return f"{100 * share.mean:.0f} % [{low:.0f}, {high:.0f}] of {len(report.episodes)}"
