"""`evaluate`: an agent plays tasks of an environment, many at once. The result is a `Report`.

An episode depends only on the environment's id and arguments, the agent, the task and the seed. It
does not depend on the number of parallel environments or on their interleaving.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from agentgym.agents import Agent, View, make_agent
from agentgym.errors import ConfigError
from agentgym.evaluation.report import Record, Report
from agentgym.making import TextGym, env_name, make_env, tasks_of
from agentgym.tasks import Tasks, task_rng
from agentgym.textify.text_actions import as_text_env
from agentgym.utils.arguments import check_types, keyword_parameters
from agentgym.utils.serialization import from_json

MOST_TASKS = 1_000_000
MOST_SAVED = 64
"""Transcripts hold the admissible actions of a turn if they are not more than this."""


def episode_seed(seed: int, task: str, repeat: int) -> int:
    """Returns the seed of an episode.

    Args:
        seed: the seed of the evaluation.
        task: the task of the episode.
        repeat: number of earlier episodes of this task in the evaluation.
    """
    return int(task_rng(task, f"episode/{seed}/{repeat}").integers(2**31))


class EpisodeLog:
    """The turns of an agent in an episode: its view, its rewards and infos.

    Args:
        view: the view of the agent.
        task: the task.
        seed: the seed of the episode.
    """

    def __init__(self, view: View, task: str, seed: int):
        self.view = view
        self.task = task
        self.seed = seed
        self.admissible: list[tuple[str, ...]] = []
        self.rewards: list[float] = []
        self.infos: list[dict[str, Any]] = []
        self.terminated = False
        self.truncated = False

    def record(self) -> Record:
        """Returns the record of the episode, which must have at least one turn."""
        terms: Counter[str] = Counter()
        for info in self.infos:
            terms.update(info["reward_terms"])
        last = self.infos[-1]
        return Record(
            task=self.task,
            seed=self.seed,
            reward=sum(self.rewards),
            reward_terms={name: float(terms[name]) for name in last["reward_terms"]},
            success=bool(last["success"]),
            progress=float(last["progress"]),
            turns=len(self.infos),
            valid=sum(bool(info["valid"]) for info in self.infos) / len(self.infos),
            terminated=bool(self.terminated),
            truncated=bool(self.truncated),
            costs={name: float(cost) for name, cost in self.view.costs.items()},
        )

    def transcript(self) -> dict[str, Any]:
        """Returns instructions, observations, actions and rewards as JSON values.

        `action_span` holds the indices of the first character of the action in a reply and of the
        one after it. It is None without `ExtractAction`, and if the reply has no action.
        """
        try:
            span = self.view.env.get_wrapper_attr("action_span")
        except AttributeError:
            span = lambda reply: None  # noqa: E731
        turns = [
            {
                "observation": observation,
                "action": action,
                "action_span": span(action),
                "admissible": admissible if len(admissible) <= MOST_SAVED else (),
                "reward": reward,
                "reward_terms": info["reward_terms"],
                "valid": info["valid"],
                "progress": info["progress"],
            }
            for (observation, action), admissible, reward, info in zip(
                self.view.history, self.admissible, self.rewards, self.infos, strict=True
            )
        ]
        return {
            "instructions": self.view.instructions,
            "transcript": turns,
            "last_observation": self.view.observation,
        }


class EpisodeRunner(EpisodeLog):
    """An episode in progress.

    Args:
        env: the environment to play it in.
        task: the task.
        seed: the seed of the episode.
    """

    def __init__(self, env: TextGym, task: str, seed: int):
        super().__init__(View.start(env, task, seed), task, seed)

    def play(self, action: str) -> bool:
        """Plays one turn and returns whether the episode is over."""
        view = self.view
        self.admissible.append(tuple(view.info["admissible"]))
        observation, reward, self.terminated, self.truncated, info = view.env.step(action)
        view.history.append((view.observation, action))
        view.observation, view.info = observation, info
        self.rewards.append(float(reward))
        self.infos.append(info)
        return self.terminated or self.truncated


def evaluate(
    env: str | Callable[[], TextGym],
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
) -> Report:
    """Evaluates an agent on tasks of an environment.

    Ctrl-C ends the evaluation early, with a report of the finished episodes. If the agent or
    the environment raises an error, its attribute `report` is that report.

    Args:
        env: an id, or a function that makes a (wrapped) text environment.
        agent: an agent, or a word for `make_agent`.
        tasks: number of tasks, sampled from the split without replacement (a smaller split is
            played several times, with new seeds), or the tasks themselves. None: every task of the
            split once.
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

    Raises:
        ConfigError: if the environment is not a text environment, the arguments cannot work or the
            file to continue from is damaged or has episodes of another seed or number of tasks.
        UnknownTaskError: if it has no such task.
    """
    given = {"env": env, "tasks": tasks, "split": split, "num_envs": num_envs, "seed": seed}
    given |= {"env_kwargs": env_kwargs, "save": save, "resume": resume, "settings": settings}
    given["only"] = only
    check_types("evaluate", keyword_parameters(evaluate), given)
    if num_envs < 1:
        raise ConfigError(f"num_envs must be at least 1, got {num_envs}.")
    if env_kwargs and not isinstance(env, str):
        raise ConfigError("env_kwargs go with an id. A function has its own arguments.")
    player = make_agent(agent) if isinstance(agent, str) else agent
    kwargs = own_wrappers(player) | dict(env_kwargs or {}) if isinstance(env, str) else {}
    make = (lambda: make_env(env, **kwargs)) if isinstance(env, str) else _adapted(env)
    if not (hasattr(player, "name") and hasattr(player, "act")):
        raise ConfigError(
            "agent must be a specification for make_agent, or an object with a `name` and "
            f"`act(views) -> actions`, got {agent!r:.80} ({type(agent).__name__})."
        )
    envs = [make()]
    records: dict[int, Record] = {}
    try:
        plan = plan_episodes(tasks_of(envs[0]), tasks, split, seed)
        while len(envs) < min(num_envs, len(plan) if only is None else len(only)):
            envs.append(make())
        report = Report(
            env=env_name(envs[0]),
            agent=player.name,
            split=split,
            seed=seed,
            planned=len(plan),
            env_kwargs=_as_json(kwargs),
        )

        header = {name: getattr(report, name) for name in ("env", "env_kwargs", "agent", "split")}
        header["settings"] = _as_json(dict(settings or {}))

        def count(index: int, record: Record) -> None:
            records[index] = record
            report.episodes.append(record)
            if on_episode is not None:
                on_episode(report)

        def finish(index: int, episode: EpisodeRunner) -> None:
            record = episode.record()
            if save is not None:
                append_episode(Path(save), header, record, episode)
            count(index, record)

        try:
            if resume and save is not None:
                for index, record in _continued(Path(save), header, plan).items():
                    count(index, record)
            chosen = range(len(plan)) if only is None else only
            left = [(index, plan[index]) for index in chosen if index not in records]
            _play(envs, player, left, finish)
        except KeyboardInterrupt:
            pass
        except Exception as error:
            error.report = report  # type: ignore[attr-defined]
            raise
        finally:
            report.episodes[:] = [records[index] for index in sorted(records)]
        return report
    finally:
        for each in envs:
            each.close()


def own_wrappers(agent: Agent) -> dict[str, Any]:
    """Returns the wrappers that an agent needs, as an argument of `make_env`, or nothing."""
    wrap = list(getattr(agent, "wrap", ()))
    return {"wrap": wrap} if wrap else {}


def _adapted(make: Callable[[], TextGym]) -> Callable[[], TextGym]:
    return lambda: as_text_env(make())


def _play(
    envs: Sequence[TextGym],
    agent: Agent,
    plan: Sequence[tuple[int, tuple[str, int]]],
    finish: Callable[[int, EpisodeRunner], None],
) -> None:
    """Plays the numbered episodes. An environment whose episode ends takes the next one."""
    waiting = iter(plan)
    active = [
        (index, EpisodeRunner(env, task, seed))
        for env, (index, (task, seed)) in zip(envs, waiting, strict=False)
    ]
    while active:
        actions = agent.act([episode.view for _, episode in active])
        if len(actions) != len(active):
            raise ValueError(
                f"Agent {agent.name!r} must return {len(active)} actions, got {len(actions)}."
            )
        under_way = []
        for (index, episode), action in zip(active, actions, strict=True):
            if not episode.play(action):
                under_way.append((index, episode))
                continue
            finish(index, episode)
            if (following := next(waiting, None)) is not None:
                index, (task, seed) = following
                under_way.append((index, EpisodeRunner(episode.view.env, task, seed)))
        active = under_way


def plan_episodes(
    known: Tasks, wanted: int | Sequence[str] | None, split: str, seed: int
) -> list[tuple[str, int]]:
    """Returns the task and the seed of each episode."""
    pool = known.split(split)
    if isinstance(wanted, int | np.integer):
        if wanted < 1:
            raise ConfigError(f"The number of episodes must be at least 1, got {wanted}.")
        rounds, rest = divmod(int(wanted), len(pool))
        drawn = task_rng(split, f"tasks/{seed}").choice(len(pool), size=rest, replace=False)
        names = list(pool) * rounds if rounds else []
        names += [pool[int(i)] for i in drawn]
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


def _as_json(values: Mapping[str, Any]) -> dict[str, Any]:
    """Converts to JSON values. Other objects, NaN and infinities become strings."""
    return json.loads(json.dumps(values, default=repr), parse_constant=str)


def append_episode(
    path: Path, header: Mapping[str, Any], record: Record, episode: EpisodeLog
) -> None:
    """Appends an episode with its transcript to a file, as one line of JSON."""
    line = json.dumps({**header, **vars(record), **episode.transcript()}, allow_nan=False)
    with path.open("a", encoding="utf-8") as file:
        file.write(line + "\n")


def read_saved(path: Path) -> list[dict[str, Any]]:
    """Returns the lines of a file written by `evaluate`. Removes an incomplete last line.

    Raises:
        ConfigError: if the file is damaged or was not written by `evaluate`.
    """
    if not path.exists():
        return []
    data = path.read_bytes()
    end = data.rfind(b"\n") + 1
    lines = []
    for number, line in enumerate(data[:end].split(b"\n")[:-1], 1):
        try:
            lines.append(json.loads(line))
            _record(lines[-1])
        except (ValueError, RecursionError) as error:
            raise ConfigError(
                f"{path} cannot be continued: line {number} is not an episode of an evaluation "
                f"({error!s:.200})."
            ) from error
    if end < len(data):  # the process was killed, or the disk full, while it was written
        if not data[end:].startswith(b'{"env"'[: len(data) - end]):
            raise ConfigError(f"{path} cannot be continued: its last line is not an episode.")
        os.truncate(path, end)
    return lines


def _record(line: Any) -> Record:
    """Returns the record of a saved episode, which earlier versions wrote without costs."""
    return from_json(Record, {"costs": {}, **line} if isinstance(line, dict) else line)


def _continued(
    path: Path, header: Mapping[str, Any], plan: Sequence[tuple[str, int]]
) -> dict[int, Record]:
    """Returns the saved episodes by their place in the plan."""
    places = {episode: index for index, episode in enumerate(plan)}
    found: dict[int, Record] = {}
    for line in read_saved(path):
        if any(line.get(name) != value for name, value in header.items()):
            continue
        record = _record(line)
        place = places.get((record.task, record.seed))
        if place is None or place in found:
            raise ConfigError(
                f"{path} cannot be continued: task {record.task!r} with seed {record.seed} "
                + ("is there twice." if place in found else "is not of this evaluation. ")
                + "Give the same tasks and seed as before, or another file."
            )
        found[place] = record
    return found
