"""`HistoryObservation`: earlier observations and actions precede the current observation."""

from __future__ import annotations

from typing import Any

import gymnasium

from agentgym.errors import ConfigError
from agentgym.utils.action_parsing import text_of
from agentgym.wrappers.base import TextWrapper


class HistoryObservation(TextWrapper):
    """Prepends earlier turns to the current observation, for agents without memory.

    **Actions**, **rewards**, **info**: unchanged.

    **Observations**: text. The earlier observations, each followed by "> " and the action taken,
    and the current observation, separated by blank lines.

    Args:
        env: an environment with text observations and actions.
        k: number of earlier turns. "full": all turns of the episode.
        keep_first: whether the first observation of the episode is included even if its turn is not
            among the last k. Many environments state the task only there.

    Raises:
        ConfigError: if observations or actions are not text, or `k` is invalid.
    """

    def __init__(
        self, env: gymnasium.Env[Any, Any], k: int | str = "full", *, keep_first: bool = False
    ):
        super().__init__(env, k=k, keep_first=keep_first)
        self._need_text("observations")
        self._need_text("actions")
        if k != "full" and (isinstance(k, str) or k < 0):
            raise ConfigError(f"k must be 'full' or a number of turns of at least 0, got {k!r}.")
        self.k = k
        self.keep_first = keep_first
        self._turns: list[tuple[str, str]] = []
        self._current = ""

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Plays one turn: see `TextEnv.step`."""
        before = self._current
        result = self.env.step(action)
        self._turns.append((before, text_of(action)))
        observation, reward, terminated, truncated, info = result
        observation, info = self._view(observation, info)
        return observation, float(reward), terminated, truncated, info

    def _view(self, observation: str, info: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        self._current = observation
        start = 0 if self.k == "full" else max(len(self._turns) - int(self.k), 0)
        parts = [f"{seen}\n\n> {action}" for seen, action in self._turns[start:]]
        if start and self.keep_first:
            parts.insert(0, self._turns[0][0])
        return "\n\n".join([*parts, observation]), info

    def _begin(self) -> None:
        self._turns = []

    def _memory(self) -> dict[str, Any]:
        return {"turns": [list(turn) for turn in self._turns]}

    def _remember(self, memory: dict[str, Any]) -> None:
        self._turns = [(str(seen), str(action)) for seen, action in memory["turns"]]
