"""`ExpertStart`: episodes that start in the middle of the expert's episode."""

from __future__ import annotations

import zlib
from typing import Any

import gymnasium
import numpy as np

from agentgym.errors import ConfigError
from agentgym.wrappers.base import TextWrapper


class ExpertStart(TextWrapper):
    """Starts episodes of training tasks at a random turn of the expert's episode.

    Near the end of a long task, a policy finds rewards that it would hardly find from the start
    ("Learning Montezuma's Revenge from a Single Demonstration", arXiv 1812.03381; "Backplay",
    arXiv 1807.06919). Here, starts are sampled from all turns at once, instead of moving from the
    end to the beginning. `last` allows stages. Episodes with the same task and seed have the same
    start, so those of a group can be compared.

    **Actions**: unchanged.

    **Observations**: text, unchanged. The first one is that of the start. To show the expert's
    turns before it, apply `HistoryObservation` on the inside.

    **Rewards**: unchanged. Those of the expert's turns are not part of the episode.

    **Episode end**: unchanged. The expert's turns count for the turn limit.

    **Info**: `expert_turns` (int: number of turns that the expert has played) is added. `turn`
    includes them. At the start, `valid` is True and `reward_terms` are 0.

    Tasks that are not in the training split, or also in the test split, start at the beginning, as
    do those that the expert does not end. Scores on training tasks are not those of whole episodes,
    and demonstrations are parts of episodes: clone without this wrapper.

    Args:
        env: an environment with text observations and actions, AgentGym's info keys, and an expert.
        share: probability of a start in the middle.
        last: number of the expert's turns, from its last one, that may be left. None: all.

    Raises:
        ConfigError: if observations or actions are not text, `share` is not in [0, 1], or `last` is
            below 1. From `reset`: if the environment has no expert.
    """

    def __init__(
        self, env: gymnasium.Env[Any, Any], *, share: float = 0.8, last: int | None = None
    ):
        super().__init__(env, share=share, last=last)
        self._need_text("observations")
        self._need_text("actions")
        if not 0 <= share <= 1:
            raise ConfigError(f"share must be in [0, 1], got {share}.")
        if last is not None and last < 1:
            raise ConfigError(f"last must be at least 1, got {last}.")
        self.share, self.last = share, last
        self._turns = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Starts an episode. Without a seed, one is sampled from `self.np_random`."""
        seed = self._given_or_sampled(seed)
        self._begin()
        observation, info = self.env.reset(seed=seed, options=options)
        task = str(info.get("task", ""))
        rng = np.random.default_rng((seed, zlib.crc32(task.encode())))
        if not trains(self.env, task) or rng.random() >= self.share:
            return self._view(observation, info)
        actions = self._plan()
        left = len(actions) if self.last is None else min(self.last, len(actions))
        played = len(actions) - int(rng.integers(1, left + 1)) if left else 0
        observation, info = self.env.reset(seed=seed, options=options)
        for action in actions[:played]:
            observation, *_, info = self.env.step(action)
        self._turns = played
        return self._view(observation, self._idle(info))

    def _plan(self) -> list[str]:
        """Plays the expert's episode. Returns its actions, or none if it does not end."""
        expert, actions = self.env.get_wrapper_attr("expert"), []
        terminated = truncated = False
        while not (terminated or truncated):
            action = expert()
            if action is None and not actions:
                raise ConfigError(
                    f"ExpertStart needs an expert, and {self.env.unwrapped} has none."
                )
            if action is None:
                return []
            actions.append(action)
            _, _, terminated, truncated, _ = self.env.step(action)
        return actions if terminated else []

    def _view(self, observation: str, info: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        return observation, {**info, "expert_turns": self._turns}

    def _begin(self) -> None:
        self._turns = 0

    def _memory(self) -> dict[str, Any]:
        return {"turns": self._turns}

    def _remember(self, memory: dict[str, Any]) -> None:
        turns = memory["turns"]
        if type(turns) is not int or turns < 0:
            raise ValueError(f"expected the number of the expert's turns, got {turns!r:.80}")
        self._turns = turns


def trains(env: gymnasium.Env[Any, Any], task: str) -> bool:
    """Returns whether a task is a training task alone."""
    try:
        tasks = env.get_wrapper_attr("tasks")
    except AttributeError:
        return False
    return task in tasks.train and task not in tasks.test
