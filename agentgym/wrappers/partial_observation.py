"""`PartialObservation`: words or lines of observations are hidden at random."""

from __future__ import annotations

import re
from typing import Any, Literal

import gymnasium
import numpy as np

from agentgym.errors import ConfigError
from agentgym.wrappers.base import TextWrapper

HIDDEN = "___"
"""Shown in place of a hidden word or line."""
_PARTS = {"words": re.compile(r"\w+"), "lines": re.compile(r"[^\n]*\S[^\n]*")}


class PartialObservation(TextWrapper):
    """Hides each word or line of an observation with a probability.

    An observation layer of AutoEnv ("AutoEnv: Automated Environments for Measuring
    Cross-Environment Agent Learning", arXiv 2511.19304): the rules stay, and the agent sees less of
    the state. The hidden places are sampled every turn from the seed of the episode, so that
    equal seeds and turns hide the same ones.

    **Actions**: unchanged.

    **Observations**: text with `___` in the hidden places. The first one, which often states
    the task, is whole.

    **Rewards**: unchanged.

    **Info**: unchanged, but for `state_key`, which includes the observation.

    Args:
        env: an environment with text observations.
        share: probability that a word or line is hidden, in [0, 1].
        parts: "words" or "lines".

    Raises:
        ConfigError: if observations are not text, or `share` is not in [0, 1].
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        share: float = 0.2,
        *,
        parts: Literal["words", "lines"] = "words",
    ):
        super().__init__(env, share=share, parts=parts)
        self._need_text("observations")
        if not 0 <= share <= 1:
            raise ConfigError(f"share must be in [0, 1], got {share}.")
        self.share, self.parts = share, parts
        self._seed = self._turn = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Starts an episode. Without a seed, one is sampled from `self.np_random`."""
        self._seed, observation, info = self._reset_with(seed, options)
        self._turn = 0
        return self._view(observation, info)

    def step(self, action: Any) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Plays one turn: see `TextEnv.step`."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._turn += 1
        observation, info = self._view(observation, info)
        return observation, float(reward), terminated, truncated, info

    def _view(self, observation: str, info: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        if self._turn:
            rng = np.random.default_rng((self._seed, self._turn))
            observation = _PARTS[self.parts].sub(
                lambda found: HIDDEN if rng.random() < self.share else found[0], observation
            )
        return observation, self._keyed(info, observation)

    def _memory(self) -> dict[str, Any]:
        return {"seed": self._seed, "turn": self._turn}

    def _remember(self, memory: dict[str, Any]) -> None:
        seed, turn = memory["seed"], memory["turn"]
        if any(type(each) is not int or each < 0 for each in (seed, turn)):
            raise ValueError(f"expected a seed and a number of turns, got {memory!r:.80}")
        self._seed, self._turn = seed, turn
