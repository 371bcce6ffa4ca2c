"""The board of `agentgym view`: saved evaluations and runs side by side, with kinds of failure.

Progress curves follow AgentBoard (arXiv 2401.13178): the progress after turn t is the best one up
to t, and stays after the end of an episode.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from agentgym.evaluation.failures import FAILURES, failure_of
from agentgym.evaluation.report import Estimate, Record, Report
from agentgym.time_step import UNJUDGED

EXAMPLES = 3
LONGEST_CURVE = 200
"""Turns of a progress curve."""

Trajectory = Mapping[str, Any]


def failure(trajectory: Trajectory) -> str:
    """Returns the kind of failure of an episode, "" for a success: see `failure_of`.

    It is computed from the transcript if it was not saved, with observations as states.
    """
    if isinstance(saved := trajectory.get("failure"), str):
        return saved
    turns = trajectory["turns"]
    texts = [*(turn["observation"] for turn in turns), trajectory["last_observation"]]
    infos = [
        {"valid": turn.get("valid") is not False, "state_key": text, "success": False}
        for turn, text in zip(turns, texts[1:], strict=True)
    ]
    infos[-1] |= {"success": trajectory["success"], UNJUDGED: trajectory.get(UNJUDGED)}
    return failure_of(texts[0], infos, terminated=bool(trajectory.get("terminated")))


def progress_curve(trajectories: Sequence[Trajectory]) -> list[float]:
    """Returns the mean progress after each turn, [] if the turns have none."""
    longest = min(max(len(each["turns"]) for each in trajectories), LONGEST_CURVE)
    curves = []
    for each in trajectories:
        best, curve = 0.0, []
        for turn in each["turns"][:LONGEST_CURVE]:
            if not isinstance(turn.get("progress"), (int, float)):
                return []
            best = max(best, turn["progress"])
            curve.append(best)
        curves.append(curve + [best] * (longest - len(curve)))
    return [round(fmean(column), 4) for column in zip(*curves, strict=True)]


def board(groups: Mapping[tuple[str, str], Sequence[Trajectory]]) -> list[dict[str, Any]]:
    """Returns the rows of the board as JSON values.

    Args:
        groups: trajectories by environment and name. Each has `success`, `reward`, `task`, `seed`,
            `turns` and `last_observation`, and a JSON value `link` that refers to it. Others are
            left out. The other groups of an environment are compared with its first one.

    Returns:
        For each group its estimates ([mean, low, high]), mean costs per episode, progress curve,
        failures with links, and the tasks that are newly `solved` and `lost`, with links.
    """
    rows: list[dict[str, Any]] = []
    first: dict[str, dict[Any, Trajectory]] = {}
    for (env, name), given in groups.items():
        found = [each for each in given if _complete(each)]
        if not found:
            continue
        by_task = {(each["task"], each.get("seed")): each for each in found}
        before = first.setdefault(env, by_task)
        rows.append(
            {"env": env, "name": name, **_estimates(env, name, found)}
            | {"curve": progress_curve(found), "failures": _failures(found)}
            | _changes(before, by_task)
        )
    return rows


def _complete(trajectory: Trajectory) -> bool:
    kinds = {"success": bool, "reward": (int, float), "turns": list}
    found = all(isinstance(trajectory.get(name), kind) for name, kind in kinds.items())
    return found and bool(trajectory["turns"])


def _estimates(env: str, name: str, trajectories: Sequence[Trajectory]) -> dict[str, Any]:
    report = Report(env, name, "", 0, len(trajectories), episodes=[*map(_record, trajectories)])
    found = report.aggregate()
    costs = {
        key.removeprefix("cost/"): round(each.mean, 4)
        for key, each in found.items()
        if key.startswith("cost/")
    }
    shown = ("success", "reward", "progress", "valid", "turns")
    estimates = {key: _numbers(found[key]) for key in shown}
    return {"episodes": len(trajectories), **estimates, "costs": costs}


def _record(trajectory: Trajectory) -> Record:
    turns = trajectory["turns"]
    given = trajectory.get("costs")
    costs = given if isinstance(given, Mapping) else {}
    if not costs and all(turn.get("tokens") for turn in turns):  # of a training run
        costs = {"completion_tokens": sum(len(turn["tokens"]) for turn in turns)}
    return Record(
        task=str(trajectory["task"]),
        seed=0,
        reward=float(trajectory["reward"]),
        reward_terms={},
        success=trajectory["success"],
        progress=float(turns[-1].get("progress") or 0.0),
        turns=len(turns),
        valid=fmean(turn.get("valid") is not False for turn in turns),
        terminated=bool(trajectory.get("terminated")),
        truncated=bool(trajectory.get("truncated")),
        costs={k: float(cost) for k, cost in costs.items() if isinstance(cost, (int, float))},
    )


def _numbers(estimate: Estimate) -> list[float | None]:
    numbers = (estimate.mean, estimate.low, estimate.high)
    return [None if number is None else round(number, 4) for number in numbers]


def _failures(trajectories: Sequence[Trajectory]) -> dict[str, Any]:
    """Returns the number of failures and links to examples, by name of the kind."""
    kinds = [failure(each) for each in trajectories]
    found = {
        name: [each["link"] for each, kind in zip(trajectories, kinds, strict=True) if kind == key]
        for key, name in FAILURES.items()
    }
    return {
        name: {"count": len(links), "examples": links[:EXAMPLES]}
        for name, links in found.items()
        if links
    }


def _changes(before: Mapping[Any, Trajectory], after: Mapping[Any, Trajectory]) -> dict[str, Any]:
    """Returns links to the episodes of common tasks and seeds whose success has changed."""
    both = [(before[task], after[task]) for task in after if task in before]
    flips = {
        "solved": [b["link"] for a, b in both if b["success"] and not a["success"]],
        "lost": [b["link"] for a, b in both if a["success"] and not b["success"]],
    }
    return {"common": len(both)} | {
        name: {"count": len(links), "examples": links[:EXAMPLES]} for name, links in flips.items()
    }
