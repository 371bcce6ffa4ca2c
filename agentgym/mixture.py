"""`Mixture`: several environments as one. The task selects the environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium

from agentgym.errors import ConfigError
from agentgym.making import ID_WITH_ARGUMENTS, env_name, tasks_of
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

    All attributes but the spaces and the tasks are those of the environment in play, such as its
    instructions, its expert and its spec.

    Args:
        envs: text environments by name.
        mix: how often each environment occurs in the tasks, whole numbers of at least 1 (default:
            equally often).

    Raises:
        ConfigError: if there are no environments, or the mix does not fit them.
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
        self._task = ""

    @property
    def spec(self) -> Any:  # type: ignore[override]
        """The spec of the environment in play."""
        return self.playing.spec

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

        Raises:
            UnknownTaskError: if there is no such task.
        """
        super().reset(seed=seed)
        options = dict(options or {})
        task = options.get("task")
        if task is None:
            task = self.tasks.train[int(self.np_random.integers(len(self.tasks.train)))]
        options["task"] = self.select(task)
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
        ConfigError: if a name is there twice, or the mix is not one positive number for each.
    """
    if not names or len(set(names)) < len(names):
        raise ConfigError(f"Expected different environments, got {list(names)}.")
    if len(mix) != len(names) or any(share < 1 for share in mix):
        raise ConfigError(
            f"mix needs a whole number of at least 1 for each of {list(names)}, got {tuple(mix)}."
        )
