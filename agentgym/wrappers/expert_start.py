"""`ExpertStart`: episodes that start in the middle of the expert's episode."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from agentgym.errors import ConfigError
from agentgym.time_limits import MANY_TURNS
from agentgym.wrappers.middle_start import _MiddleStart


class ExpertStart(_MiddleStart):
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

    turns_key = "expert_turns"

    def __init__(
        self, env: gymnasium.Env[Any, Any], *, share: float = 0.8, last: int | None = None
    ):
        super().__init__(env, share=share, last=last)
        if last is not None and last < 1:
            raise ConfigError(f"last must be at least 1, got {last}.")
        self.last = last

    def _can_start(self, task: str) -> bool:
        return True

    def _start(
        self, task: str, seed: int, options: dict[str, Any] | None, rng: np.random.Generator
    ) -> tuple[str, dict[str, Any], int]:
        actions = self._plan()
        left = len(actions) if self.last is None else min(self.last, len(actions))
        played = len(actions) - int(rng.integers(1, left + 1)) if left else 0
        observation, info = self.env.reset(seed=seed, options=options)
        for action in actions[:played]:
            observation, *_, info = self.env.step(action)
        return observation, info, played

    def _plan(self) -> list[str]:
        """Plays the expert's episode. Returns its actions, or none if it does not end.

        It gives up after `MANY_TURNS` turns.
        """
        expert, actions = self.env.get_wrapper_attr("expert"), []
        terminated = truncated = False
        while not (terminated or truncated or len(actions) == MANY_TURNS):
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
