"""`_MiddleStart`: base class of wrappers whose episodes may start in the middle."""

from __future__ import annotations

import zlib
from typing import Any, ClassVar

import gymnasium
import numpy as np

from agentgym.errors import ConfigError
from agentgym.wrappers.base import TextWrapper


class _MiddleStart(TextWrapper):
    """Base class of wrappers that start episodes of training tasks in the middle.

    Tasks that are not in the training split, or also in the test split, start at the beginning.
    Episodes with the same task and seed have the same start. A subclass implements `_can_start` and
    `_start`.

    Args:
        env: an environment with text observations and actions, and AgentGym's info keys.
        share: probability of a start in the middle.
        **arguments: further arguments of the subclass.

    Raises:
        ConfigError: if observations or actions are not text, or `share` is not in [0, 1].
    """

    turns_key: ClassVar[str]
    """Key of the info that holds the number of turns before the start."""

    def __init__(self, env: gymnasium.Env[Any, Any], *, share: float, **arguments: Any):
        super().__init__(env, share=share, **arguments)
        self._need_text("observations")
        self._need_text("actions")
        if not 0 <= share <= 1:
            raise ConfigError(f"share must be in [0, 1], got {share}.")
        self.share, self._turns = share, 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Starts an episode. Without a seed, one is sampled from `self.np_random`."""
        seed, observation, info = self._reset_with(seed, options)
        self._begin()
        task = str(info.get("task", ""))
        rng = np.random.default_rng((seed, zlib.crc32(task.encode())))
        can_start = _trains(self.env, task) and self._can_start(task)
        if not can_start or rng.random() >= self.share:
            return self._view(observation, info)
        observation, info, self._turns = self._start(task, seed, options, rng)
        return self._view(observation, self._idle(info))

    def _can_start(self, task: str) -> bool:
        """Returns whether a training task can start in the middle."""
        raise NotImplementedError

    def _start(
        self, task: str, seed: int, options: dict[str, Any] | None, rng: np.random.Generator
    ) -> tuple[str, dict[str, Any], int]:
        """Resets the environment, plays the turns before a start, and returns their number.

        Args:
            task: name of the task.
            seed: seed of the episode.
            options: options of `reset`.
            rng: samples the start.

        Returns:
            The observation, the info and the number of turns.
        """
        raise NotImplementedError

    def _view(self, observation: str, info: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        return observation, {**info, self.turns_key: self._turns}

    def _begin(self) -> None:
        self._turns = 0

    def _memory(self) -> dict[str, Any]:
        return {"turns": self._turns}

    def _remember(self, memory: dict[str, Any]) -> None:
        turns = memory["turns"]
        if type(turns) is not int or turns < 0:
            raise ValueError(f"expected the number of turns before the start, got {turns!r:.80}")
        self._turns = turns


def _trains(env: gymnasium.Env[Any, Any], task: str) -> bool:
    """Returns whether a task is a training task alone."""
    try:
        tasks = env.get_wrapper_attr("tasks")
    except AttributeError:
        return False
    return task in tasks.train and task not in tasks.test
