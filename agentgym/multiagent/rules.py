"""`GameRules`: the part of a multi-agent game that its author writes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from agentgym.errors import ConfigError
from agentgym.rendering import Scene
from agentgym.tasks import Tasks
from agentgym.time_step import TimeStep
from agentgym.utils.action_parsing import match_action

Rewards = Mapping[str, Mapping[str, float]]
"""Agent -> name of the reward term -> reward. Missing agents and terms have a reward of 0."""

COUNTED = 200
"""Samples that estimate the distribution of a scripted player that does not give its own."""


class InvalidMove(Exception):
    """An action is invalid. The message is feedback for the agent. `TextGame` always catches it."""


def listed(actions: tuple[str, ...], most: int = 20) -> str:
    """Returns up to `most` actions separated by commas, in quotes if they are sentences."""
    shown = actions[:most]
    if any(action.endswith((".", "!", "?")) or ", " in action for action in shown):
        shown = tuple(f'"{action}"' for action in shown)
    more = f", ... ({len(actions)} in total)" if len(actions) > most else ""
    return ", ".join(shown) + more


class GameRules:
    """The rules of a game: its attributes and the methods that a `TextGame` implements.

    `TextGame` plays episodes by them. It explains how a game is written.
    """

    instructions: str
    """Rules and action format: the system prompt of all agents (but see `instructions_for`)."""
    tasks: Tasks
    """The training and test tasks."""
    players: ClassVar[range] = range(2, 3)
    """Possible numbers of players."""
    State: ClassVar[type]
    """The dataclass of `self.state`, which `agentgym.utils.serialization` can convert to JSON."""
    reward_names: ClassVar[tuple[str, ...]] = ("task",)
    """The reward terms of the rules, without "invalid", which is added."""
    declares: ClassVar[dict[str, str]] = {}
    """Findings of `agentgym certify` that are meant, by the id of the check, with the reason."""
    zero_sum: ClassVar[bool] = False
    """Whether the rewards of all agents, without penalties, sum to 0 in every turn."""
    common_reward: ClassVar[bool] = False
    """Whether all agents, a team, have the same reward, without penalties, in every turn."""
    levels: ClassVar[tuple[str, ...]] = ("random",)
    """The levels of the scripted players. The first is always "random"."""
    expert_level: ClassVar[str | None] = None
    """The level that serves as expert, if any."""
    default_opponents: ClassVar[str] = "random"
    """Default level of the opponents in a `SingleSeat` environment.

    A game with scripted levels must name one of them.
    """

    actions: tuple[str, ...] = ()
    """All actions that can be admissible. Empty if the set is open."""
    stages: int = 1
    """Number of equal stages of an episode. Rewards are divided by it."""
    opponents: Mapping[str, str]
    """Level of the scripted player in each seat, if known. `expert` may exploit it."""
    state: Any
    """The state of the rules, a `State`."""
    possible_agents: tuple[str, ...]
    """All agents, "player_0", "player_1", ..."""
    np_random: np.random.Generator
    """The source of all random events."""

    def _start(self, task: str) -> None:
        """Sets `self.state` to the start of the task."""
        raise NotImplementedError

    def _acting(self) -> tuple[str, ...]:
        """Returns the agents that move now. None of them means that the game has ended."""
        raise NotImplementedError

    def _look(self, agent: str) -> TimeStep:
        """Returns the agent's observation of the state.

        `TextGame` sets rewards, termination and validity. The call is lazy and may not happen at
        all, so it must not change the state.
        """
        raise NotImplementedError

    def _advance(self, moves: dict[str, str]) -> Rewards:
        """Applies the moves of all acting agents to `self.state` and returns the rewards."""
        raise NotImplementedError

    def _parse(self, agent: str, action: str) -> str:
        """Returns the move of an action.

        Raises:
            InvalidMove: if the action is invalid.
        """
        admissible = self._admissible_actions(agent)
        if not admissible:
            return action
        move = match_action(action, admissible)
        if move is not None:
            return move
        raise InvalidMove(f"Invalid action {action[:40]!r}. Valid actions: {listed(admissible)}.")

    def _admissible_actions(self, agent: str) -> tuple[str, ...]:
        """Returns the admissible actions of an acting agent, those of its observation.

        A game overrides it if they are much cheaper than the rest of the observation.
        """
        return self.seen(agent).admissible

    def _fallback(self, agent: str) -> str:
        """Returns the move of an agent after `max_invalid` consecutive invalid actions.

        Default: a random one. A game may override it with a worse one, such as resigning. A better
        one would reward nonsense.
        """
        return self._random(agent, self.np_random)

    def _present(self) -> tuple[str, ...]:
        """Returns the agents that are still in the game. An agent cannot come back."""
        return self.possible_agents

    def _script(self, level: str, agent: str, rng: np.random.Generator) -> str:
        """Returns the next action of a scripted player (all `levels` except "random").

        It must use only the part of `self.state` that is observable for the agent.
        """
        raise NotImplementedError

    def _random(self, agent: str, rng: np.random.Generator) -> str:
        """Returns a random admissible action. Default for open sets: the empty string."""
        admissible = self._admissible_actions(agent)
        return admissible[int(rng.integers(len(admissible)))] if admissible else ""

    def script(self, level: str, agent: str, rng: np.random.Generator) -> str:
        """Returns the next action of a scripted player.

        Args:
            level: one of `levels`.
            agent: the seat of the player.
            rng: source of its random choices.

        Raises:
            ValueError: for an unknown level.
        """
        if level not in self.levels:
            raise ValueError(f"Unknown level {level!r}. Known levels: {', '.join(self.levels)}.")
        if level == "random":
            return self._random(agent, rng)
        return self._script(level, agent, rng)

    def script_probabilities(self, level: str, agent: str) -> np.ndarray:
        """Returns the probabilities of a scripted player's actions, in order of `admissible`.

        Raises:
            ValueError: for an unknown level, or if the set of actions is open.
        """
        admissible = self.seen(agent).admissible
        if not admissible:
            raise ValueError(f"{type(self).__name__} lists no admissible actions for {agent}.")
        if level == "random":
            return np.full(len(admissible), 1 / len(admissible))
        rng = np.random.default_rng(0)
        before, choice = rng.bit_generator.state, self.script(level, agent, rng)
        if rng.bit_generator.state == before:  # no random choice
            return np.array([float(action == choice) for action in admissible])
        # A scripted player makes few different choices. Their shares are estimated by sampling.
        drawn = [self.script(level, agent, np.random.default_rng(i)) for i in range(COUNTED)]
        return np.array([drawn.count(action) for action in admissible]) / COUNTED

    def instructions_for(self, agent: str) -> str:
        """Returns the rules and the action format that an agent reads. Default: `instructions`.

        A game overrides it if an agent must not read all of them.
        """
        return self.instructions

    def role(self, agent: str) -> str:
        """Returns the agent's role in the episode, such as "seer". Default: the agent's name.

        Training keeps statistics by role. It is never shown to agents, as it may be hidden.
        """
        return agent

    def privileged_text(self, agent: str) -> str | None:
        """Returns a short text about facts that the agent does not see, None if there is none.

        It is for critics in training: see `TextEnv.privileged_text`.
        """
        return None

    def possible_roles(self, agent: str) -> tuple[str, ...]:
        """Returns the roles that an agent can have in any episode. Default: the agent's name."""
        return (agent,)

    def starts(self) -> Iterable[tuple[float, Any]]:
        """Yields the probability and the state of every start, for exact evaluation.

        A game that implements it must have no random events after its start. A game of several
        equal stages, such as hands of poker, yields the starts of the first: see `stages`.

        Raises:
            ConfigError: if the game, or the game with these arguments, has no exact evaluation.
        """
        raise ConfigError(
            f"{type(self).__name__} has no exact evaluation: it does not implement `starts`. "
            "Compare agents by playing instead: agentgym eval GAME --agents A B."
        )

    def cooperation(self, agent: str) -> Sequence[float] | None:
        """Returns how cooperative an agent's choice was in each finished round of a social dilemma.

        Values are in [0, 1]. The choice is the move of the game, after invalid actions too. None:
        the game is no dilemma.
        """
        return None

    def stage(self) -> int:
        """Returns the number of finished stages, from 0."""
        return 0

    def reseed(self, seed: int) -> None:
        """Samples the chance events of the rest of the episode anew: see `TextEnv.reseed`.

        Raises:
            ConfigError: if they follow from what has happened.
        """
        self.np_random.bit_generator.state = np.random.PCG64(seed).state

    def picture(self) -> str:
        """Returns the text for spectators. Default: the observations of all agents."""
        return "\n\n".join(
            f"[{agent}]\n{self.seen(agent).observation}" for agent in self.possible_agents
        )

    def _frame(self, agent: str | None) -> Scene:
        """Returns the picture of the state for `render_mode="rgb_array"`.

        Args:
            agent: the seat that sees it. Facts that are hidden from it stay hidden. None: the
                spectators, who see everything.
        """
        raise NotImplementedError

    @classmethod
    def has_pictures(cls) -> bool:
        """Whether the game implements `_frame`."""
        return cls._frame is not GameRules._frame

    def _pay(self, gains: Iterable[float]) -> Rewards:
        """Returns rewards of the term "task", given in the order of `possible_agents`."""
        pairs = zip(self.possible_agents, gains, strict=True)
        return {agent: {"task": gain} for agent, gain in pairs}

    def seen(self, agent: str) -> TimeStep:
        """Returns the agent's last `TimeStep`. `TextGame` implements it."""
        raise NotImplementedError
