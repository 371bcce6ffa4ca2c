"""`EnvGame`: base class of games around a single-agent environment."""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from agentgym.multiagent.episode import GameEpisode
from agentgym.multiagent.game import TextGame
from agentgym.multiagent.rules import Rewards
from agentgym.snapshots import restoring


@dataclass(kw_only=True)
class EnvGameState:
    """The part of the state that all games around an environment share.

    Attributes:
        ended: whether the environment's episode has terminated.
        cut: whether the environment's episode was truncated.
        refused: the agent whose action the environment called invalid in this turn, or "".
        env: the environment's snapshot. It is set only in snapshots of the game.
    """

    ended: bool = False
    cut: bool = False
    refused: str = ""
    env: dict[str, Any] = field(default_factory=dict)


class EnvGame(TextGame):
    """Base class of games in which several agents play one single-agent environment.

    A subclass sets `inner`, `tasks` and `reward_names` in its constructor, derives its `State` from
    `EnvGameState`, and plays actions in the environment with `_step_inner`. Tasks, chance events,
    end and turn limit of the game are those of the environment.
    """

    state: Any
    """The state of the rules, an `EnvGameState`."""
    inner: Any
    """The environment, a `TextEnv`."""

    def _start(self, task: str) -> None:
        self.inner.np_random = self.np_random
        self.inner.reset(options={"task": task})
        self.state = self.State()

    def _step_inner(self, action: str, author: str) -> dict[str, float]:
        """Plays an action in the environment and returns its reward terms without "invalid".

        Args:
            action: the action.
            author: the agent that is charged if the action is invalid.
        """
        self.inner.np_random = self.np_random
        _, _, ended, cut, info = self.inner.step(action)
        state = self.state
        state.ended, state.cut = ended, cut
        state.refused = "" if info["valid"] else author
        return {name: info["reward_terms"][name] for name in self.inner.reward_names}

    def clock(self) -> int:
        """Returns the number of actions played in the environment."""
        return self.inner._turn

    def play(self, actions: Mapping[str, str]) -> None:
        """Plays one turn: see `TextGame.play`. A turn limit of the environment truncates."""
        if self.episode is not None:
            self.state.refused = ""
        super().play(actions)
        if self.state.cut:
            self._episode.truncated, self._episode.acting = True, ()

    def _observe(
        self, rewards: Rewards, invalid: Collection[str] = (), *, ended: bool = False
    ) -> None:
        super()._observe(rewards, {*invalid, self.state.refused} - {""}, ended=ended)

    def reseed(self, seed: int) -> None:
        """Samples the chance events of the rest of the episode anew: see `GameRules.reseed`."""
        self.inner.reseed(seed)
        super().reseed(seed)

    def copy(self) -> Self:
        """Returns a copy of the game and its environment: see `TextGame.copy`."""
        twin = super().copy()
        twin.inner = copy.deepcopy(self.inner)
        return twin

    def snapshot(self) -> dict[str, Any]:
        """Returns the complete state of the episode as a JSON-serialisable dictionary."""
        snapshot = super().snapshot()
        snapshot["state"]["env"] = self.inner.snapshot()
        return snapshot

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Continues from a snapshot of a game made with the same arguments.

        Raises:
            SnapshotError: if the snapshot is of another game or damaged.
        """
        with restoring(self):
            super().restore(snapshot)
            self.inner.restore(self.state.env)
            self.inner.np_random = self.np_random
            self.state.env = {}

    def _check_episode(self, episode: GameEpisode) -> None:
        if self.state.env["task"] != episode.task:
            raise ValueError("game and environment have different tasks")
        super()._check_episode(episode)
