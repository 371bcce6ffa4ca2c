"""Evaluation of a run on held-out tasks, and its conclusion: report, curve and final table."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from accelerate import Accelerator
from rich.console import Console

from agentgym.agents import Agent
from agentgym.evaluation.report import Record, Report, compare
from agentgym.evaluation.runner import evaluate
from agentgym.trainers.config import TrainConfig
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy_agent.agent import PolicyAgent
from agentgym.trainers.run.checkpoint import RunFolder, write_text
from agentgym.trainers.run.environment import MakeEnv
from agentgym.trainers.run.logger import RunLog, draw_curve
from agentgym.trainers.run.processes import shared
from agentgym.trainers.run.setup import RunState
from agentgym.utils.serialization import from_json


def policy_agent(config: TrainConfig, policy: Policy, name: str) -> PolicyAgent:
    """Returns the policy as an agent with the prompts and sampling of the settings."""
    return PolicyAgent(
        policy,
        config.context_settings(),
        config.evaluation_sampling(),
        constrain=config.rollout.constrain,
        name=name,
        wrap=config.environment.wrap,
    )


def evaluate_agent(
    config: TrainConfig,
    make_env: MakeEnv,
    agent: Agent | str,
    accelerator: Accelerator | None = None,
    check: Callable[[Any], None] | None = None,
) -> Report:
    """Evaluates an agent on held-out tasks, the same ones for every run and seed.

    Args:
        config: the number of tasks.
        make_env: makes one environment.
        agent: an agent or its name.
        accelerator: its processes share the episodes. None: this process plays all.
        check: called after each episode. An exception from it ends the evaluation.
    """
    count = config.evaluation.eval_episodes
    world = 1 if accelerator is None else accelerator.num_processes
    played: list[Report] = []

    def play(numbers: Sequence[int]) -> list[Record]:
        report = evaluate(
            make_env,
            agent,
            tasks=count,
            num_envs=-(-config.rollout.num_envs // world),
            only=numbers,
            on_episode=check,
        )
        played.append(report)
        return report.episodes

    everything = range(count)
    records = play(everything) if accelerator is None else shared(accelerator, everything, play)
    report = replace(played[0], episodes=records)
    settings = config.to_json()
    report.env_kwargs.update(settings["env_kwargs"])
    if settings["wrap"]:
        report.env_kwargs["wrap"] = settings["wrap"]
    return report


def conclude(
    recipe: str,
    config: TrainConfig,
    make_env: MakeEnv,
    folder: RunFolder,
    log: RunLog,
    state: RunState,
) -> list[Report]:
    """Publishes the policy, writes report.json and curve.png and shows the final table."""
    if not log.active:
        return []
    latest = folder.latest()
    assert latest is not None
    folder.publish("policy", latest / "policy")
    reports = []
    if config.evaluation.eval_baselines and config.evaluation.eval_episodes:
        reports += [evaluate_agent(config, make_env, agent) for agent in _baselines(make_env)]
    found = [state.first, state.last if state.evaluated > 0 else None]
    reports += [from_json(Report, report) for report in found if report is not None]
    text = json.dumps([r.to_json() for r in reports], indent=1, allow_nan=False)
    write_text(folder.path / "report.json", text + "\n")
    draw_curve(folder.path, f"{recipe} on {config.environment.env_id}")
    log.close()
    console = Console(highlight=False)
    if reports:
        console.print(compare(reports))
    console.print(f"Policy, logs and curve.png: {folder.path}", soft_wrap=True)
    return reports


def _baselines(make_env: MakeEnv) -> list[str]:
    """Returns the random agent, and the expert if the environment has one."""
    env = make_env()
    env.reset(seed=0)
    has_expert = env.get_wrapper_attr("expert")() is not None
    env.close()
    return ["random", "expert"] if has_expert else ["random"]
