"""`ParallelGame`: a game as a parallel PettingZoo environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pettingzoo import ParallelEnv

from agentgym.errors import SnapshotError
from agentgym.multiagent.pettingzoo_mixin import Observation, PettingZooMixin


class ParallelGame(PettingZooMixin, ParallelEnv[str, Observation, Any]):
    """A game as a parallel environment. Every step is one turn of the game.

    Only agents with `info["acting"]` act. Actions of other agents are ignored and can be omitted.
    See `PettingZooMixin` for the arguments.
    """

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Observation], dict[str, dict[str, Any]]]:
        """Starts an episode.

        Args:
            seed: seeds the game. None continues its random stream.
            options: {"task": name} selects the task. Other options are ignored.

        Returns:
            Observations and infos by agent.

        Raises:
            UnknownTaskError: if the game has no such task.
        """
        self._begin(seed, options)
        return self._results()

    def step(
        self, actions: dict[str, Any]
    ) -> tuple[
        dict[str, Observation],
        dict[str, float],
        dict[str, bool],
        dict[str, bool],
        dict[str, dict[str, Any]],
    ]:
        """Plays one turn.

        Raises:
            TypeError: if an action is of the wrong type, or the actions are no mapping.
            ValueError: if the action of an acting agent is missing.
            gymnasium.error.ResetNeeded: before the first reset or after the end of an episode.
        """
        game = self.game
        if not isinstance(actions, Mapping):
            raise TypeError(
                f"actions must be a mapping from agents to actions, got {actions!r:.80}."
            )
        heard = [agent for agent in game.acting if agent in actions]
        self._play({agent: self._words(actions[agent]) for agent in heard})
        observations, infos = self._results()
        rewards = {agent: game.reward(agent) for agent in self.agents}
        terminations = {agent: game.terminated(agent) for agent in self.agents}
        truncations = {agent: game.truncated(agent) for agent in self.agents}
        self.agents = [agent for agent in self.agents if not game.over(agent)]
        return observations, rewards, terminations, truncations, infos

    def _results(self) -> tuple[dict[str, Observation], dict[str, dict[str, Any]]]:
        return (
            {agent: self.observe(agent) for agent in self.agents},
            {agent: self._info(agent) for agent in self.agents},
        )

    def snapshot(self) -> dict[str, Any]:
        """Returns the complete state of the episode as a JSON-serialisable dictionary."""
        return {"game": self.game.snapshot()}

    def restore(
        self, snapshot: Mapping[str, Any]
    ) -> tuple[dict[str, Observation], dict[str, dict[str, Any]]]:
        """Continues from a snapshot of an environment made with the same arguments.

        Returns:
            The observations and infos at the snapshot.

        Raises:
            SnapshotError: if the snapshot is of another game or damaged.
        """
        if not isinstance(snapshot, Mapping) or "game" not in snapshot:
            raise SnapshotError("Expected a snapshot of a game with parallel actions.")
        self.game.restore(snapshot["game"])
        self.agents = [agent for agent in self.possible_agents if not self.game.over(agent)]
        return self._results()
