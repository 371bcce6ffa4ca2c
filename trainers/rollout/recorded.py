"""`RecordedEnv`: an environment that repeats a recorded episode."""

from __future__ import annotations

from typing import Any

import gymnasium

from agentgym.data.episode import RecordedEpisode


class RecordedEnv(gymnasium.Env[str, str]):
    """Repeats an episode: its expert acts as recorded, and every action has the recorded outcome.

    Args:
        episode: the episode.
    """

    def __init__(self, episode: RecordedEpisode):
        self.episode, self.instructions = episode, episode.instructions or ""
        self.max_turns = len(episode.turns)
        self._turn = 0

    def expert(self) -> str:
        """Returns the recorded action."""
        return self.episode.turns[self._turn].action

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Starts the episode again."""
        self._turn = 0
        return self._look({})

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Returns the outcome of the recorded action."""
        episode, turn = self.episode, self.episode.turns[self._turn]
        self._turn += 1
        over = self._turn == len(episode.turns)
        observation, info = self._look(
            {
                "valid": turn.valid,
                "progress": turn.progress,
                "reward_terms": turn.reward_terms or {"task": turn.reward},
                "success": over and episode.success,
            }
        )
        ended = over and episode.terminated
        return observation, turn.reward, ended, over and not ended, info

    def _look(self, info: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        if self._turn == len(self.episode.turns):
            return self.episode.last_observation, info
        turn = self.episode.turns[self._turn]
        return turn.observation, {**info, "admissible": turn.admissible}
