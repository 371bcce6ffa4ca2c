"""The conclusion of a run: report, curve and final table."""

from __future__ import annotations

import json
from pathlib import Path

from agentgym.evaluation.report import Report, compare, failure_lines
from agentgym.evaluation.runs import read_metrics
from agentgym.trainers.data.run_state import RunState
from agentgym.trainers.rollout.env_pool import MakeEnv
from agentgym.trainers.run.environment import has_expert
from agentgym.trainers.run.evaluation import (
    by_environment,
    evaluate_agent,
    evaluate_seats,
    evaluate_team,
    join_seats,
)
from agentgym.trainers.run.logger import Output, RunLog, draw_curve
from agentgym.trainers.settings.config import TrainConfig
from agentgym.trainers.system.checkpoint import RunFolder, write_text
from agentgym.utils.files import shown
from agentgym.utils.serialization import from_json


def conclude(
    recipe: str,
    config: TrainConfig,
    make_env: MakeEnv,
    folder: RunFolder,
    log: RunLog,
    state: RunState,
    *,
    team: bool,
) -> list[Report]:
    """Publishes the policy, writes report.json and curve.png and shows the final table.

    `team` is the attribute of `Lineup`.
    """
    if not log.active:
        return []
    latest = folder.latest()
    assert latest is not None
    folder.publish("policy", latest / "policy")
    reports = []
    if config.evaluation.eval_baselines and config.evaluation.eval_episodes:
        known = has_expert(make_env, config.environment.env_seconds)
        agents = ["random", "expert"] if known else ["random"]
        reports += [_baseline(config, make_env, agent, team=team) for agent in agents]
    found = [state.first, state.last if state.evaluated > 0 else None]
    reports += [from_json(Report, report) for report in found if report is not None]
    parts = [by_environment(report, config) for report in reports]
    ids = (*config.environment.ids, *config.evaluation.eval_env_id)
    reports = [part[id] for id in ids for part in parts if id in part]
    text = json.dumps([r.to_json() for r in reports], indent=1, allow_nan=False)
    write_text(folder.path / "report.json", text + "\n")
    draw_curve(folder.path, f"{recipe} on {config.environment.label}")
    log.close()
    console = Output()
    if reports:
        console.print(compare(reports))
    lines = [*failure_lines(reports), *exploitability(folder.path)]
    if state.best_exploitability is not None:
        lines.append(
            f"The folder best has the least exploitable policy ({state.best_exploitability:.3f}), "
            f"of iteration {state.best_iteration}."
        )
    lines.append(f"Policy, logs and curve.png: {shown(folder.path)}")
    console.print("\n".join(lines), markup=False, soft_wrap=True)
    return reports


def exploitability(folder: Path) -> list[str]:
    """Returns a line with the exploitability of the first and the last evaluation, if measured."""
    rows = read_metrics(folder)
    for name, label, note in (
        ("eval/nashconv", "NashConv", "0: equilibrium"),
        ("eval/exploitability", "Exploitability", "a lower bound"),
    ):
        if found := [row[name] for row in rows if name in row]:
            return [f"{label}: {found[0]:.3f} at the start, {found[-1]:.3f} at the end ({note})."]
    return []


def _baseline(config: TrainConfig, make_env: MakeEnv, agent: str, *, team: bool) -> Report:
    """Returns the evaluation of an agent in the trained seats."""
    if team:
        return evaluate_team(config, agent)[0]
    if seats := config.game.learners:
        return join_seats(evaluate_seats(config, make_env, agent, seats))
    return evaluate_agent(config, make_env, agent)
