"""`AECGame`: a game as a turn-by-turn (AEC) PettingZoo environment."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gymnasium.error import ResetNeeded
from pettingzoo import AECEnv

from agentgym.core import UnreadableAction
from agentgym.multiagent.pettingzoo_mixin import Observation, PettingZooMixin
from agentgym.snapshots import restoring
from agentgym.utils.action_parsing import text_of
from agentgym.utils.serialization import from_json


class AECGame(PettingZooMixin, AECEnv[str, Observation, Any]):
    """A game as an AEC (agent-environment cycle) environment.

    The acting agents are selected one by one, other agents are skipped. Agents that act
    simultaneously do not observe each other's actions. See `PettingZooMixin` for the arguments.
    """

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Starts an episode.

        Args:
            seed: seeds the game. None continues its random stream.
            options: {"task": name} selects the task. Other options are ignored.

        Raises:
            UnknownTaskError: if the game has no such task.
        """
        self._begin(seed, options)
        self._said: dict[str, str] = {}
        self._skip_agent_selection = None
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self._report()
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self.agent_selection = self.game.acting[0]

    def step(self, action: Any) -> None:
        """Takes the action of `agent_selection`.

        Args:
            action: the action. None if the episode is over for the agent.

        Raises:
            TypeError: if the action is of the wrong type.
            gymnasium.error.ResetNeeded: before the first reset or after the end of an episode.
        """
        if not self.agents:
            raise ResetNeeded("Call reset() before step(): there is no episode in progress.")
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        self._said[agent] = self._words(action)
        self._cumulative_rewards[agent] = 0.0
        self._clear_rewards()
        waiting = [name for name in self.game.acting if name not in self._said]
        if waiting:
            self.agent_selection = waiting[0]
            return
        actions, self._said = self._said, {}
        self._play(actions)
        self._report()
        self._accumulate_rewards()
        self.agent_selection = next(iter(self.game.acting), agent)
        self._deads_step_first()

    def _report(self) -> None:
        game = self.game
        self.rewards = {agent: game.reward(agent) for agent in self.agents}
        self.terminations = {agent: game.terminated(agent) for agent in self.agents}
        self.truncations = {agent: game.truncated(agent) for agent in self.agents}
        self.infos = {agent: self._info(agent) for agent in self.agents}

    def snapshot(self) -> dict[str, Any]:
        """Returns the complete state of the episode as a JSON-serialisable dictionary."""
        return {
            "game": self.game.snapshot(),
            "agents": list(self.agents),
            "said": {agent: _pack(said) for agent, said in self._said.items()},
            "rewards": dict(self.rewards),
            "cumulative": dict(self._cumulative_rewards),
            "selection": self.agent_selection,
            "next": self._skip_agent_selection,
        }

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Continues from a snapshot of an environment made with the same arguments.

        A wrapped environment must be reset before.

        Raises:
            SnapshotError: if the snapshot is of another game or damaged.
        """
        with restoring(self, self.game):
            saved = from_json(_AECSnapshot, snapshot)
            saved.check(self.possible_agents)
            said = {agent: _unpack(packed) for agent, packed in saved.said.items()}
            self.game.restore(saved.game)
            if not said.keys() <= set(self.game.acting):
                raise ValueError("it holds actions of agents that do not act")
            self.agents, self._cumulative_rewards = saved.agents, saved.cumulative
            self.agent_selection, self._skip_agent_selection = saved.selection, saved.next
            self._said = said
            self._report()
            self.rewards = saved.rewards


@dataclass
class _AECSnapshot:
    """A snapshot of an `AECGame`."""

    game: dict[str, Any]
    agents: list[str]
    said: dict[str, list[str]]
    rewards: dict[str, float]
    cumulative: dict[str, float]
    selection: str
    next: str | None

    def check(self, possible: list[str]) -> None:
        """Raises a ValueError if it is of other agents or cannot be one of them."""
        agents = set(self.agents)
        if self.agents != [agent for agent in possible if agent in agents]:
            raise ValueError(f"expected some of the agents {possible}, got {self.agents}")
        for rewards in (self.rewards, self.cumulative):
            if not agents <= rewards.keys() <= set(possible):
                raise ValueError(f"expected rewards of {self.agents}, got {rewards}")
            if not all(map(math.isfinite, rewards.values())):
                raise ValueError(f"rewards must be finite, got {rewards}")
        if agents and self.selection not in agents:
            raise ValueError(f"{self.selection!r} is selected, but is none of {self.agents}")
        if self.next is not None and self.next not in possible:  # it may be out by now
            raise ValueError(f"{self.next!r} is next, but is none of {possible}")
        if not self.said.keys() <= agents:
            raise ValueError("it holds actions of agents that are out")
        if not all(len(packed) in (1, 2) for packed in self.said.values()):
            raise ValueError("an action is a text, with feedback if it could not be read")


def _pack(action: str) -> list[str]:
    """Returns an action as JSON values, including the feedback of an `UnreadableAction`."""
    text = text_of(action)
    return [text, action.feedback] if isinstance(action, UnreadableAction) else [text]


def _unpack(packed: list[str]) -> str:
    return UnreadableAction(*packed) if len(packed) > 1 else packed[0]
