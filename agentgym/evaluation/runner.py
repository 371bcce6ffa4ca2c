"""`evaluate`: an agent plays tasks of an environment, many at once. The result is a `Report`.

An episode depends only on the environment's id and arguments, the agent, the task and the seed. It
does not depend on the number of parallel environments or on their interleaving.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from agentgym.agents import Agent, View, make_agent
from agentgym.agents.basic.view import actions_for
from agentgym.errors import ConfigError, naming
from agentgym.evaluation.report import Record, Report
from agentgym.evaluation.transcripts import EpisodeLog, append_episode, continued
from agentgym.registration.making import (
    TextGym,
    env_name,
    factory_of,
    make_env,
    split_names_tasks,
    tasks_of,
    warn_if_endless,
)
from agentgym.registration.mixture import MixedTasks
from agentgym.tasks import Tasks, task_rng
from agentgym.time_limits import limit_env
from agentgym.utils.arguments import check_types, keyword_parameters
from agentgym.utils.masking import masked

MOST_TASKS = 1_000_000


def episode_seed(seed: int, task: str, repeat: int) -> int:
    """Returns the seed of an episode.

    Args:
        seed: the seed of the evaluation.
        task: the task of the episode.
        repeat: number of earlier episodes of this task in the evaluation.
    """
    return int(task_rng(task, f"episode/{seed}/{repeat}").integers(2**31))


class EpisodeRunner(EpisodeLog):
    """An episode in progress.

    Args:
        env: the environment to play it in.
        task: the task.
        seed: the seed of the episode.
    """

    def __init__(self, env: TextGym, task: str, seed: int):
        with naming(lambda: f"Raised by the environment at the start of task {task!r} ({seed=})."):
            view = View.start(env, task, seed)
        super().__init__(view, task, seed)

    def play(self, action: str) -> bool:
        """Plays one turn and returns whether the episode is over."""
        view = self.view
        self.admissible.append(tuple(view.info["admissible"]))
        with naming(lambda: self._place(action)):
            observation, reward, self.terminated, truncated, info = view.env.step(action)
        self.truncated = bool(truncated) and not self.terminated  # a `TimeLimit` may set both
        view.history.append((view.observation, action))
        view.observation, view.info = observation, info
        self.rewards.append(float(reward))
        self.infos.append(info)
        over = self.terminated or self.truncated
        if not over:
            warn_if_endless(view.env, len(self.rewards))
        return over

    def _place(self, action: str) -> str:
        return (
            f"Raised by the environment in turn {len(self.rewards) + 1} of task {self.task!r} with "
            f"seed {self.seed}, after the action {action!r:.300}."
        )


def evaluate(
    env: str | TextGym | Callable[[], TextGym],
    agent: Agent | str,
    *,
    tasks: int | Sequence[str] | None = 200,
    split: str = "test",
    num_envs: int = 16,
    seed: int = 0,
    env_kwargs: Mapping[str, Any] | None = None,
    save: str | Path | None = None,
    resume: bool = False,
    settings: Mapping[str, Any] | None = None,
    only: Sequence[int] | None = None,
    on_episode: Callable[[Report], None] | None = None,
    env_seconds: float | None = None,
) -> Report:
    """Evaluates an agent on tasks of an environment.

    Ctrl-C ends the evaluation early, with a report of the finished episodes. If the agent or
    the environment raises an error, its attribute `report` is that report.

    Args:
        env: an id, a text environment, which is copied, or a function that makes one.
        agent: an agent, or a word for `make_agent`.
        tasks: number of tasks, sampled from the split without replacement (a smaller split is
            played several times, with new seeds), or the tasks themselves. None: every task of the
            split once. In a `Mixture`, each environment has its share of the number, at least 1 if
            there are enough.
        split: "train" or "test".
        num_envs: number of episodes played at the same time.
        seed: the seed of an episode is derived from it and the task.
        env_kwargs: arguments of the environment, and its wrappers as "wrap" (default: those of the
            agent, such as a policy's in training): see `make_env`. Only with an id.
        save: a file to which each finished episode is appended at once, as one line of JSON with
            the transcript.
        resume: whether to continue from the episodes in the file `save`, if it exists. Only those
            of the same environment, arguments, agent name, split and `settings` count.
        settings: JSON values that are written to each line of `save`, such as the options of the
            agent.
        only: indices of the episodes to play, in the order of a whole evaluation, so that several
            processes can share one. None: all.
        on_episode: called after each finished episode with the report so far, its newest last.
            Episodes that are continued from count too.
        env_seconds: maximum seconds of a reset or a step of an environment. A slower one truncates
            its episode, with a warning and the failure "timeout" in its record. None: no limit.

    Raises:
        ConfigError: if the environment is not a text environment, the arguments cannot work or the
            file to continue from is damaged or has episodes of another seed or number of tasks.
        UnknownTaskError: if it has no such task.
    """
    given = {"env": env, "tasks": tasks, "split": split, "num_envs": num_envs, "seed": seed}
    given |= {"env_kwargs": env_kwargs, "save": save, "resume": resume, "settings": settings}
    given |= {"only": only, "env_seconds": env_seconds}
    check_types("evaluate", keyword_parameters(evaluate), given)
    if num_envs < 1:
        raise ConfigError(f"num_envs must be at least 1, got {num_envs}.")
    if env_kwargs and not isinstance(env, str):
        raise ConfigError("env_kwargs go with an id: pass them to the constructor of env instead.")
    player = make_agent(agent) if isinstance(agent, str) else agent
    kwargs = own_wrappers(player) | dict(env_kwargs or {}) if isinstance(env, str) else {}
    make = (lambda: make_env(env, **kwargs)) if isinstance(env, str) else factory_of(env)
    make = limit_env(make, env_seconds)
    if not (hasattr(player, "name") and hasattr(player, "act")):
        hint = " Its attribute `agent` is one." if hasattr(player, "agent") else ""
        raise ConfigError(
            "agent must be a specification for make_agent, or an object with a `name` and "
            f"`act(views) -> actions`, got {agent!r:.80} ({type(agent).__name__}).{hint}"
        )
    envs = [make()]
    try:
        if split_names_tasks(envs[0]):
            check_no_split(kwargs)
        plan = plan_episodes(tasks_of(envs[0]), tasks, split, seed)
        chosen = range(len(plan)) if only is None else only
        while len(envs) < min(num_envs, len(chosen)):
            envs.append(make())
        report = Report(
            env=env_name(envs[0]),
            agent=player.name,
            split=split,
            seed=seed,
            planned=len(plan),
            env_kwargs=_as_json(kwargs),
        )
        # Absolute, as an environment may change the working folder.
        file = None if save is None else Path(save).absolute()
        evaluation = _Evaluation(report, plan, file, _as_json(dict(settings or {})), on_episode)
        evaluation.run(envs, player, chosen, resume)
        return report
    finally:
        for each in envs:
            each.close()


class _Evaluation:
    """An evaluation in progress, whose finished episodes are in its report and its file.

    Args:
        report: the report.
        plan: the task and the seed of each episode.
        save: the file, if any.
        settings: JSON values for each line of the file.
        on_episode: called after each finished episode.
    """

    def __init__(
        self,
        report: Report,
        plan: Sequence[tuple[str, int]],
        save: Path | None,
        settings: dict[str, Any],
        on_episode: Callable[[Report], None] | None,
    ):
        self.report, self.plan, self.save, self.on_episode = report, plan, save, on_episode
        names = ("env", "env_kwargs", "agent", "split")
        self.header = {name: getattr(report, name) for name in names} | {"settings": settings}
        self.records: dict[int, Record] = {}

    def run(
        self, envs: Sequence[TextGym], agent: Agent, chosen: Sequence[int], resume: bool
    ) -> None:
        """Plays the chosen episodes that the file does not hold, up to Ctrl-C."""
        try:
            if resume and self.save is not None:
                for index, record in continued(self.save, self.header, self.plan).items():
                    self._count(index, record)
            left = [(index, self.plan[index]) for index in chosen if index not in self.records]
            _play(envs, agent, left, self._finish)
        except KeyboardInterrupt:
            pass
        except Exception as error:
            error.report = self.report  # type: ignore[attr-defined]
            raise
        finally:
            self.report.episodes[:] = [self.records[index] for index in sorted(self.records)]

    def _finish(self, index: int, episode: EpisodeRunner) -> None:
        record = episode.record()
        if self.save is not None:
            append_episode(self.save, self.header, record, episode)
        self._count(index, record)

    def _count(self, index: int, record: Record) -> None:
        self.records[index] = record
        self.report.episodes.append(record)
        if self.on_episode is not None:
            self.on_episode(self.report)


def own_wrappers(agent: Agent) -> dict[str, Any]:
    """Returns the wrappers that an agent needs, as an argument of `make_env`, or nothing."""
    wrap = list(getattr(agent, "wrap", ()))
    return {"wrap": wrap} if wrap else {}


def _play(
    envs: Sequence[TextGym],
    agent: Agent,
    plan: Sequence[tuple[int, tuple[str, int]]],
    finish: Callable[[int, EpisodeRunner], None],
) -> None:
    """Plays the numbered episodes. An environment whose episode ends takes the next one."""
    waiting, finished = iter(plan), getattr(agent, "finish", None)
    active = [
        (index, EpisodeRunner(env, task, seed))
        for env, (index, (task, seed)) in zip(envs, waiting, strict=False)
    ]
    while active:
        actions = actions_for(
            agent, [each.view for _, each in active], [each.task for _, each in active]
        )
        under_way = []
        for (index, episode), action in zip(active, actions, strict=True):
            if not episode.play(action):
                under_way.append((index, episode))
                continue
            finish(index, episode)
            if finished is not None:
                finished(episode.view)
            if (following := next(waiting, None)) is not None:
                index, (task, seed) = following
                under_way.append((index, EpisodeRunner(episode.view.env, task, seed)))
        active = under_way


def check_no_split(env_kwargs: Mapping[str, Any]) -> None:
    """Raises ConfigError for a `split` of the environment, which episodes of given tasks ignore."""
    if "split" in env_kwargs:
        raise ConfigError(
            "The tasks are those of `split` (--split): leave split out of env_kwargs."
        )


def plan_episodes(
    known: Tasks, wanted: int | Sequence[str] | None, split: str, seed: int
) -> list[tuple[str, int]]:
    """Returns the task and the seed of each episode."""
    pool = known.split(split)
    if isinstance(wanted, int | np.integer):
        if wanted < 1:
            raise ConfigError(f"The number of episodes must be at least 1, got {wanted}.")
        names = _sampled(pool, int(wanted), split, seed)
    elif wanted is None:
        if len(pool) > MOST_TASKS:
            raise ConfigError(f"This split has {len(pool):,} tasks. Pass the number of tasks.")
        names = list(pool)
    else:
        names = [known.check(task) for task in ([wanted] if isinstance(wanted, str) else wanted)]
        if not names:
            raise ConfigError("Expected at least one task, got none.")
    before: Counter[str] = Counter()
    plan = []
    for task in names:
        plan.append((task, episode_seed(seed, task, before[task])))
        before[task] += 1
    return plan


def _sampled(pool: Sequence[str], count: int, split: str, seed: int) -> list[str]:
    """Returns tasks of a split. Those of a mixture have the shares of its environments."""
    if isinstance(pool, MixedTasks):
        return [
            f"{name} {task}"
            for name, share in pool.shared_out(count).items()
            for task in _sampled(pool.parts[name], share, split, seed)
        ]
    rounds, rest = divmod(count, len(pool))
    drawn = task_rng(split, f"tasks/{seed}").choice(len(pool), size=rest, replace=False)
    names = list(pool) * rounds if rounds else []
    return names + [pool[int(i)] for i in drawn]


def _as_json(values: Mapping[str, Any]) -> dict[str, Any]:
    """Converts to JSON values without secrets. Other objects, NaN and infinities become strings."""
    return masked(json.loads(json.dumps(values, default=repr), parse_constant=str))
