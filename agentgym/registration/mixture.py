"""`Mixture`: several environments as one. The task selects the environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium

from agentgym.errors import ConfigError
from agentgym.registration.making import ID_WITH_ARGUMENTS, env_name, tasks_of
from agentgym.snapshots import (
    check_wrapper,
    generator_of,
    restore_snapshot,
    restoring,
    snapshot_of,
)
from agentgym.spaces import UnicodeText
from agentgym.tasks import Tasks

TextGym = gymnasium.Env[Any, Any]


class MixedTasks(Sequence[str]):
    """The tasks of several environments, interleaved in the proportions of a mix.

    With the mix (2, 1) of A and B, the order is A, A, B, A, A, B, ... A task is named "A task". The
    tasks of an environment start again when they are used up, so that the proportions hold to the
    end.

    Args:
        parts: the tasks of each environment.
        mix: how often each environment occurs.
    """

    def __init__(self, parts: Mapping[str, Sequence[str]], mix: Sequence[int]):
        self.parts = dict(parts)
        shares = dict(zip(self.parts, mix, strict=True))
        self._pattern = [(name, k) for name, share in shares.items() for k in range(share)]
        self._shares = shares
        rounds = max(-(-len(tasks) // shares[name]) for name, tasks in self.parts.items())
        self._places = range(rounds * len(self._pattern))

    def shared_out(self, count: int) -> dict[str, int]:
        """Returns how many of `count` tasks each environment has, in the proportions of the mix.

        Each has at least one if there are enough (Adams' method of apportionment).
        """
        counts = dict.fromkeys(self.parts, 0)
        for _ in range(count):  # 1e-9: an environment without tasks comes first
            counts[max(counts, key=lambda name: self._shares[name] / (counts[name] or 1e-9))] += 1
        return counts

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[place] for place in self._places[index]]
        turn, place = divmod(self._places[index], len(self._pattern))
        name, k = self._pattern[place]
        tasks = self.parts[name]
        return f"{name} {tasks[(turn * self._shares[name] + k) % len(tasks)]}"

    def __contains__(self, task: object) -> bool:
        name, _, inner = task.partition(" ") if isinstance(task, str) else ("", "", "")
        return name in self.parts and inner in self.parts[name]


class Mixture(gymnasium.Env[Any, Any]):
    """Plays episodes of several text environments. The task selects the environment.

    All attributes but the spaces, the tasks and the random generator are those of the environment
    in play, such as its instructions, its expert and its spec.

    Args:
        envs: text environments by name.
        mix: how often each environment occurs in the tasks, whole numbers of at least 1 (default:
            equally often).

    Raises:
        ConfigError: if there are no environments, a name has a space, or the mix does not fit them.
    """

    def __init__(self, envs: Mapping[str, TextGym], mix: Sequence[int] = ()):
        mix = tuple(mix) or (1,) * len(envs)
        check_mix(list(envs), mix)
        self.envs = dict(envs)
        self.name, self.playing = next(iter(self.envs.items()))
        self.observation_space = self.action_space = UnicodeText()
        known = {name: tasks_of(env) for name, env in self.envs.items()}
        self.tasks = Tasks(
            MixedTasks({name: tasks.train for name, tasks in known.items()}, mix),
            MixedTasks({name: tasks.test for name, tasks in known.items()}, mix),
        )
        splits = {n: getattr(env.unwrapped, "split", "train") for n, env in self.envs.items()}
        self._drawn = MixedTasks({n: tasks.split(splits[n]) for n, tasks in known.items()}, mix)
        self._task = ""

    @property
    def spec(self) -> Any:  # type: ignore[override]
        """The spec of the environment in play."""
        return self.playing.spec

    @property
    def render_mode(self) -> str | None:  # type: ignore[override]
        """The render mode of the environment in play."""
        return self.playing.render_mode

    @property
    def metadata(self) -> dict[str, Any]:  # type: ignore[override]
        """The metadata of the environment in play."""
        return self.playing.metadata

    @property
    def unwrapped(self) -> TextGym:
        """The environment in play without its wrappers."""
        return self.playing.unwrapped

    def __getattr__(self, name: str) -> Any:
        """Returns an attribute of the environment in play."""
        if name.startswith("_") or name == "playing":
            raise AttributeError(name)
        return self.playing.get_wrapper_attr(name)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Starts an episode: see `TextEnv.reset`.

        By default, the task is sampled from the splits of the environments. Without a seed, that of
        the episode is sampled from `self.np_random`.

        Raises:
            UnknownTaskError: if there is no such task.
        """
        super().reset(seed=seed)
        options = dict(options or {})
        # Sampled even if a task is given, so that the random stream is the same in both cases.
        drawn = int(self.np_random.integers(len(self._drawn)))
        if seed is None:
            seed = int(self.np_random.integers(2**31))
        task = options.get("task")
        options["task"] = self.select(self._drawn[drawn] if task is None else task)
        observation, info = self.playing.reset(seed=seed, options=options)
        return observation, {**info, "task": self._task}

    def select(self, task: str) -> str:
        """Selects the environment of a task and returns the task's name in this environment.

        Raises:
            UnknownTaskError: if there is no such task.
        """
        self._task = self.tasks.check(task)
        self.name, _, inner = self._task.partition(" ")
        self.playing = self.envs[self.name]
        return inner

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Plays one turn: see `TextEnv.step`."""
        observation, reward, terminated, truncated, info = self.playing.step(action)
        return observation, float(reward), terminated, truncated, {**info, "task": self._task}

    def render(self) -> Any:
        """Renders the environment in play."""
        return self.playing.render()

    def snapshot(self) -> dict[str, Any]:
        """Returns a JSON-serialisable snapshot of the environment in play and of its choice."""
        return {
            "wrapper": type(self).__name__,
            "memory": {"name": self.name},
            "rng": self.np_random.bit_generator.state,
            "seed": self.np_random_seed,
            "env": snapshot_of(self.playing),
        }

    def restore(self, snapshot: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Continues from a snapshot of a mixture of the same environments.

        The environment of the snapshot is selected. If it is not in play, it is reset first, since
        it may never have been: see `TextWrapper`.

        Raises:
            SnapshotError: if the snapshot is of another mixture or environment, or damaged.
        """
        check_wrapper(snapshot, type(self).__name__)
        before = self.playing
        with restoring(self):
            self.name = snapshot["memory"]["name"]
            self.playing = self.envs[self.name]
            self._np_random = generator_of(snapshot["rng"])
            self._np_random_seed = int(snapshot["seed"])
            if self.playing is not before:
                self.playing.reset()
            observation, info = restore_snapshot(self.playing, snapshot["env"])
            self._task = f"{self.name} {info['task']}"
        return observation, {**info, "task": self._task}

    def close(self) -> None:
        """Closes all environments."""
        for env in self.envs.values():
            env.close()


def id_in_play(env: TextGym) -> str:
    """Returns the id of an environment, or of the one in play, with arguments in its name.

    Names of a mixture such as "KG-QA-v0:hops=1" and "KG-QA-v0:hops=2" stay different.
    """
    words = ID_WITH_ARGUMENTS.fullmatch(env.name) if isinstance(env, Mixture) else None
    arguments = words[2] if words else None
    return f"{env_name(env)}:{arguments}" if arguments else env_name(env)


def check_mix(names: Sequence[str], mix: Sequence[int]) -> None:
    """Checks the names of the environments of a mixture and how often each occurs.

    Raises:
        ConfigError: if a name is there twice or has a space, or the mix is not one positive number
            for each.
    """
    if not names or len(set(names)) < len(names):
        raise ConfigError(f"Expected different environments, got {list(names)}.")
    if any(" " in name for name in names):  # tasks are named "NAME task"
        raise ConfigError(f"Names of environments have no spaces, got {list(names)}.")
    if len(mix) != len(names) or any(share < 1 for share in mix):
        raise ConfigError(
            f"mix needs a whole number of at least 1 for each of {list(names)}, got {tuple(mix)}."
        )
