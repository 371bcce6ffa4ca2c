"""Evaluation of a policy in the program that plays the episodes of a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from agentgym.evaluation.failures import failure_of
from agentgym.evaluation.report import Record, Report
from agentgym.evaluation.runner import plan_episodes
from agentgym.registration.making import env_name, tasks_of
from agentgym.time_limits import TIMED_OUT
from agentgym.time_step import UNJUDGED
from agentgym.trainers.data.streams import stream
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.gateway.executor import HarnessExecutor
from agentgym.trainers.rollout.env_pool import EnvPool, MakeEnv
from agentgym.trainers.rollout.episode import EpisodeSpec
from agentgym.trainers.settings.config import TrainConfig


def evaluate_program(
    config: TrainConfig,
    make_env: MakeEnv,
    executor: HarnessExecutor,
    *,
    name: str,
    only: Sequence[int],
    slots: int,
    check: Callable[[Any], None] | None = None,
) -> Report:
    """Evaluates the policy of an executor on the held-out tasks of `evaluate`, with its program.

    An episode without an outcome counts as one that was not solved, with reward 0.

    Args:
        config: the settings.
        make_env: makes one environment.
        executor: plays the episodes of training.
        name: name of the agent.
        only: indices of the episodes to play.
        slots: number of episodes played at the same time.
        check: called before each call of the model. An exception from it ends the evaluation.
    """
    chosen = config.environment
    with EnvPool(make_env, slots, chosen.env_workers, chosen.env_seconds) as pool:
        env = pool.env(0)
        plan = plan_episodes(tasks_of(env), config.evaluation.eval_episodes, "test", 0)
        report = Report(env_name(env), name, "test", 0, len(plan), {})
        specs = [
            EpisodeSpec(*plan[i], stream(config.run.seed, "evaluation", i), bootstraps=False)
            for i in only
        ]
        with executor.gateway.sampling(config.evaluation_sampling()):
            there = replace(
                executor, pool=pool, on_progress=check, on_episode=None, turn_limit="truncate"
            )
            played = there.play(specs)
    pairs = zip(specs, played, strict=True)
    report.episodes.extend([_record(*found) if found else _without(spec) for spec, found in pairs])
    return report


def _without(spec: EpisodeSpec) -> Record:
    """Returns the record of an episode without an outcome."""
    return Record(
        spec.task, spec.seed, 0.0, {}, success=False, progress=0.0, turns=0, valid=0.0,
        terminated=True, truncated=False, failure="wrong",
    )  # fmt: skip


def _record(trajectory: Trajectory) -> Record:
    """Returns the record of an episode."""
    turns = trajectory.turns
    keys = [*(turn.state_key for turn in turns[1:]), trajectory.final_state_key]
    infos = [{"valid": t.valid, "state_key": key} for t, key in zip(turns, keys, strict=True)]
    ends = {TIMED_OUT: trajectory.stats.timed_out, UNJUDGED: trajectory.stats.unjudged}
    infos[-1] |= {"success": trajectory.success, **ends}
    terms: dict[str, float] = {}
    for turn in turns:
        for name, value in turn.reward_terms.items():
            terms[name] = terms.get(name, 0.0) + value
    return Record(
        task=trajectory.task,
        seed=trajectory.seed,
        reward=trajectory.episode_return,
        reward_terms=terms,
        success=trajectory.success,
        progress=turns[-1].progress,
        turns=len(turns),
        valid=sum(turn.valid for turn in turns) / len(turns),
        terminated=trajectory.terminated,
        truncated=trajectory.truncated,
        costs={
            "prompt_tokens": float(trajectory.stats.read_tokens),
            "completion_tokens": float(sum(turn.stop - turn.start for turn in turns)),
        },
        failure=failure_of(turns[0].state_key, infos, terminated=trajectory.terminated),
    )
