"""Evaluation of a run: held-out tasks before, during and after, and what is shown at the end."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from rich.console import Console

from agentgym.agents import Agent
from agentgym.evaluate import evaluate, make_env
from agentgym.report import Report, compare
from agentgym.serialization import from_json
from agentgym.trainers.agent import PolicyAgent
from agentgym.trainers.assembly import Progress
from agentgym.trainers.checkpoint import RunFolder, write_text
from agentgym.trainers.config import TrainConfig
from agentgym.trainers.log import RunLog, draw_curve
from agentgym.trainers.policy import Policy


def policy_agent(config: TrainConfig, policy: Policy, name: str) -> PolicyAgent:
    """Returns the policy as an agent that reads and speaks as the settings say."""
    return PolicyAgent(
        policy,
        config.context_settings(),
        config.evaluation_sampling(),
        constrain=config.constrain,
        name=name,
    )


def evaluate_agent(
    config: TrainConfig, agent: Agent | str, check: Callable[[Any], None] | None = None
) -> Report:
    """Lets an agent play the held-out tasks; the same ones for every run and every seed.

    Args:
        config: how many tasks, in which environment.
        agent: an agent or its name.
        check: called after each episode; what it raises ends the evaluation.
    """
    return evaluate(
        config.env_id,
        agent,
        tasks=config.eval_episodes,
        num_envs=config.num_envs,
        env_kwargs=config.env_kwargs,
        on_episode=check,
    )


def conclude(
    recipe: str, config: TrainConfig, folder: RunFolder, log: RunLog, progress: Progress
) -> list[Report]:
    """Publishes the policy, writes report.json and curve.png and shows the final table."""
    if not log.active:
        return []
    latest = folder.latest()
    assert latest is not None
    folder.publish("policy", latest / "policy")
    reports = []
    if config.eval_baselines and config.eval_episodes:
        reports += [evaluate_agent(config, agent) for agent in _baselines(config)]
    found = [progress.first, progress.last if progress.evaluated > 0 else None]
    reports += [from_json(Report, report) for report in found if report is not None]
    text = json.dumps([r.to_json() for r in reports], indent=1, allow_nan=False)
    write_text(folder.path / "report.json", text + "\n")
    draw_curve(folder.path, f"{recipe} on {config.env_id}")
    log.close()
    console = Console(highlight=False)
    if reports:
        console.print(compare(reports))
    console.print(f"Policy, logs and curve.png: {folder.path}", soft_wrap=True)
    return reports


def _baselines(config: TrainConfig) -> list[str]:
    """Names the random agent, and the expert where the environment has one."""
    env = make_env(config.env_id, **config.env_kwargs)
    env.reset(seed=0)
    has_expert = env.get_wrapper_attr("expert")() is not None
    env.close()
    return ["random", "expert"] if has_expert else ["random"]
