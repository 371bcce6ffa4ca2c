"""Episodes of a certificate, their traces, and the first difference between two of them."""

from __future__ import annotations

import hashlib
import itertools
import json
import reprlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from agentgym.core import TextEnv
from agentgym.tasks import task_rng

NONSENSE = "zzz"
"""An action that no environment knows."""
Row = dict[str, Any]
"""Observation, reward, terminated, truncated and info of a reset or a step, as JSON values."""


@dataclass
class Episode:
    """An episode of a player.

    Attributes:
        task: name of the task.
        seed: seed of the episode.
        actions: the actions.
        rows: the reset, and then the result of each action.
        seconds: duration of each step.
        chance: whether a step used the random state of the environment.
        texts: the observation without feedback after the reset and each action.
    """

    task: str
    seed: int
    actions: list[str] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    chance: bool = False
    texts: list[str] = field(default_factory=list)

    @property
    def prompt(self) -> str:
        """The first observation."""
        return self.rows[0]["observation"]

    @property
    def total(self) -> float:
        """The return, undiscounted."""
        return float(sum(row["reward"] for row in self.rows))

    @property
    def success(self) -> bool:
        """Whether the last step reported success."""
        return bool(self.rows[-1]["info"]["success"])

    @property
    def over(self) -> bool:
        """Whether the episode has ended."""
        return self.rows[-1]["terminated"] or self.rows[-1]["truncated"]

    def admissible(self, turn: int) -> list[str]:
        """Returns the admissible actions before an action."""
        return self.rows[turn]["info"]["admissible"]


Choose = Callable[[TextEnv, Episode], str | None]
"""Chooses the next action of an episode in progress. None ends it."""


def seed_of(task: str) -> int:
    """Returns the seed of all episodes of a task."""
    return int(task_rng(task, "certify").integers(2**31))


def row_of(
    observation: str, info: dict[str, Any], reward: float, terminated: bool, truncated: bool
) -> Row:
    """Returns the result of a reset or step as JSON values."""
    row = {"observation": observation, "reward": reward, "terminated": terminated}
    return row | {"truncated": truncated, "info": info | {"admissible": [*info["admissible"]]}}


def play(
    env: TextEnv,
    task: str,
    choose: Choose,
    *,
    turns: int,
    seed: int | None = None,
    clock: Callable[[], float] = lambda: 0.0,
) -> Episode:
    """Plays an episode to its end, or to a number of turns."""
    episode = Episode(task, seed_of(task) if seed is None else seed)
    observation, info = env.reset(seed=episode.seed, options={"task": task})
    episode.rows.append(row_of(observation, info, 0.0, False, False))
    episode.texts.append(text_of(env))
    before = env.np_random.bit_generator.state
    while not episode.over and len(episode.actions) < turns:
        action = choose(env, episode)
        if action is None:
            break
        begun = clock()
        observation, reward, terminated, truncated, info = env.step(action)
        episode.seconds.append(clock() - begun)
        episode.actions.append(action)
        episode.rows.append(row_of(observation, info, reward, terminated, truncated))
        episode.texts.append(text_of(env))
    episode.chance = env.np_random.bit_generator.state != before
    return episode


def text_of(env: TextEnv) -> str:
    """Returns the observation without feedback on the last action."""
    assert env._last is not None
    return env._last.text


def follow(actions: Sequence[str], end: str | None = NONSENSE) -> Choose:
    """Returns a player that plays a list of actions, and then `end`."""

    def choose(env: TextEnv, episode: Episode) -> str | None:
        turn = len(episode.actions)
        return actions[turn] if turn < len(actions) else end

    return choose


def expert(env: TextEnv, episode: Episode) -> str:
    """Chooses the action of the scripted expert."""
    return env.expert() or NONSENSE


def random_player(task: str, vocabulary: Sequence[str]) -> Choose:
    """Returns a player of random admissible actions, or random words if the set is open."""
    rng = task_rng(task, "certify/random")

    def choose(env: TextEnv, episode: Episode) -> str:
        choices = episode.admissible(-1) or vocabulary
        return choices[int(rng.integers(len(choices)))]

    return choose


def digest(value: Any) -> str:
    """Returns a digest of JSON values: 16 hexadecimal digits."""
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def difference(one: Sequence[Row], other: Sequence[Row]) -> str | None:
    """Returns the first turn and field in which two traces differ, or None if they are equal."""
    for turn, (a, b) in enumerate(itertools.zip_longest(one, other)):
        if a is None or b is None:
            return f"turn {turn}: one episode has ended"
        for name in a:
            if a[name] != b[name]:
                left, right = apart(a[name], b[name])
                return f"turn {turn}: {name} is {left} and {right}"
    return None


def apart(one: Any, other: Any) -> tuple[str, str]:
    """Returns two different values as short texts, around the place where they part."""
    if not isinstance(one, str) or not isinstance(other, str):
        if isinstance(one, dict) and isinstance(other, dict):
            names = [name for name in one.keys() | other.keys() if one.get(name) != other.get(name)]
            one, other = ({name: each.get(name) for name in sorted(names)} for each in (one, other))
        return reprlib.repr(one), reprlib.repr(other)
    pairs = enumerate(itertools.zip_longest(one, other))
    at = max(0, next((i for i, (a, b) in pairs if a != b), 0) - 10)
    return repr(one[at : at + 40]), repr(other[at : at + 40])


def mean(values: Sequence[float]) -> float:
    """Returns the mean, rounded so that it is the same on every machine."""
    return round(float(np.mean(values)), 6)


def standard_error(values: np.ndarray) -> float:
    """Returns the standard error of the mean."""
    return float(np.std(values) / np.sqrt(len(values)))
