"""PettingZoo environments of a `TextGame`.

The rules define the agents that act in a turn. `AECGame` collects their actions one by one,
`ParallelGame` all at once. A turn is played when all actions are known, so the same actions have
the same outcome in both.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded
from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.utils.wrappers import OrderEnforcingWrapper

from agentgym.core import UnreadableAction
from agentgym.errors import ConfigError, SnapshotError
from agentgym.multiagent.game import TextGame
from agentgym.multiagent.single_seat import SingleSeat
from agentgym.snapshots import restoring
from agentgym.spaces import UnicodeText
from agentgym.utils.action_parsing import numbered
from agentgym.utils.arguments import (
    check_arguments,
    check_render_mode,
    keyword_parameters,
    optional,
)
from agentgym.utils.printable import printable
from agentgym.utils.serialization import from_json
from agentgym.wrappers.encode_observation import WordHash

__all__ = ["AECGame", "ParallelGame", "PettingZooMixin", "SingleSeat", "make_pettingzoo"]

Observation = dict[str, Any]

NUMBERS = ("turn", "valid", "success", "progress", "acting")
"""The info keys if both observations and actions are numeric."""
SHOWN = ("action_mode", "observation_size", "render_mode")
"""The arguments of `PettingZooMixin`. All others are arguments of the game."""


class PettingZooMixin:
    """Spaces, observations and rendering of both kinds of PettingZoo environment.

    Args:
        game: the rules.
        action_mode: "text": actions are strings and observations are `{"text"}`. "discrete", for
            games with a fixed set of actions: an action is an index into `game.actions`, and
            observations are `{"text", "action_mask"}`. The mask, int8 (len(game.actions),), is all
            zeros for agents that do not act.
        observation_size: None: observations hold the text. A number: the key `text` is replaced by
            `observation`, float32 (observation_size,), the hashed words of the text (see
            `agentgym.wrappers.EncodeObservation`). If actions are numbers as well, infos hold only
            the numeric keys (`NUMBERS`), as deep-learning libraries require.
        render_mode: None, "ansi" (`render` returns text) or "human" (prints the text every turn).

    Raises:
        ConfigError: for an invalid argument, or "discrete" actions of a game with free text.
    """

    def __init__(
        self,
        game: TextGame,
        *,
        action_mode: str = "text",
        observation_size: int | None = None,
        render_mode: str | None = None,
    ):
        if action_mode not in ("text", "discrete"):
            raise ConfigError(f"action_mode must be 'text' or 'discrete', got {action_mode!r}.")
        if action_mode == "discrete" and not game.actions:
            raise ConfigError(
                f"{type(game).__name__} takes free text with these arguments, so actions cannot be "
                "numbered. Use action_mode='text'."
            )
        if observation_size is not None and observation_size < 1:
            raise ConfigError(f"observation_size must be at least 1, got {observation_size}.")
        modes = ["ansi", "human"]
        check_render_mode(render_mode, modes)
        self.game = game
        self.action_mode = action_mode
        self.observation_size = observation_size
        self._hash = WordHash(observation_size) if observation_size else None
        self._numbers = {action: number for number, action in enumerate(game.actions)}
        self.render_mode = render_mode
        self.metadata: dict[str, Any] = {
            "name": type(game).__name__,
            "render_modes": modes,
            "render_fps": 4,
            "is_parallelizable": False,  # not by PettingZoo's wrapper: use `parallel_env`
        }
        self.possible_agents = list(game.possible_agents)
        self.agents: list[str] = []
        self.observation_spaces: dict[str, gymnasium.Space[Any]] = {}
        self.action_spaces: dict[str, gymnasium.Space[Any]] = {}
        for agent in self.possible_agents:
            spaces: dict[str, gymnasium.Space[Any]] = (
                {"observation": gymnasium.spaces.Box(-1, 1, (observation_size,), np.float32)}
                if observation_size
                else {"text": UnicodeText()}
            )
            if action_mode == "discrete":
                spaces["action_mask"] = gymnasium.spaces.Box(0, 1, (len(game.actions),), np.int8)
                self.action_spaces[agent] = gymnasium.spaces.Discrete(len(game.actions))
            else:
                self.action_spaces[agent] = UnicodeText()
            self.observation_spaces[agent] = gymnasium.spaces.Dict(spaces)

    @property
    def instructions(self) -> str:
        """Rules and action format: the system prompt, the same for every agent.

        Wrappers of PettingZoo are bypassed by `env.unwrapped.instructions`. The role of an agent,
        where a game has roles, is part of its observations.
        """
        return self.game.instructions

    def observation_space(self, agent: str) -> gymnasium.Space[Any]:
        """Returns the agent's observation space, always the same object."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> gymnasium.Space[Any]:
        """Returns the agent's action space, always the same object."""
        return self.action_spaces[agent]

    def observe(self, agent: str) -> Observation:
        """Returns the agent's current observation."""
        step = self.game.seen(agent)
        observation: Observation = (
            {"observation": self._hash.text(step.observation)}
            if self._hash
            else {"text": step.observation}
        )
        if self.action_mode == "discrete":
            observation["action_mask"] = self._mask(step.admissible)
        return observation

    def _mask(self, admissible: tuple[str, ...]) -> np.ndarray:
        mask = np.zeros(len(self.game.actions), np.int8)
        try:
            mask[[self._numbers[action] for action in admissible]] = 1
        except KeyError as error:
            raise ValueError(
                f"{type(self.game).__name__}._look lists {error} as admissible, but it is not in "
                "`actions`."
            ) from None
        return mask

    def _info(self, agent: str) -> dict[str, Any]:
        info = self.game.info(agent)
        numbers = self._hash is not None and self.action_mode == "discrete"
        return {name: info[name] for name in NUMBERS} if numbers else info

    def render(self) -> str | None:
        """Returns the text for spectators in mode "ansi". Mode "human" prints it at every turn.

        Raises:
            gymnasium.error.ResetNeeded: before the first reset.
        """
        if self.game.episode is None:
            raise ResetNeeded("Call reset() before render().")
        return self.game.picture() if self.render_mode == "ansi" else None

    def close(self) -> None:
        """Does nothing."""

    def _begin(self, seed: int | None, options: Mapping[str, Any] | None) -> None:
        # Options other than the task are ignored: PettingZoo's own tests pass some.
        self.game.reset(seed, (options or {}).get("task"))
        self.agents = list(self.possible_agents)
        self._show()

    def _play(self, actions: Mapping[str, str]) -> None:
        self.game.play(actions)
        self._show()

    def _show(self) -> None:
        if self.render_mode == "human":
            print(printable(self.game.picture()))

    def _words(self, action: Any) -> str:
        """Returns an action as text. An index out of range gives an invalid action."""
        if self.action_mode == "text":
            if not isinstance(action, str):
                raise TypeError(
                    f"An action must be a str, got {type(action).__name__}: {action!r:.80}."
                )
            return action
        number, actions = numbered(action), self.game.actions
        return actions[number] if 0 <= number < len(actions) else f"action number {number}"


def _pack(action: str) -> list[str]:
    """Returns an action as JSON values, including the feedback of an `UnreadableAction`."""
    return [str(action), action.feedback] if isinstance(action, UnreadableAction) else [action]


def _unpack(packed: list[str]) -> str:
    return UnreadableAction(*packed) if len(packed) > 1 else packed[0]


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


@dataclasses.dataclass
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
        if self.next is not None and self.next not in agents:
            raise ValueError(f"{self.next!r} is next, but is none of {self.agents}")
        if not self.said.keys() <= agents:
            raise ValueError("it holds actions of agents that are out")
        if not all(len(packed) in (1, 2) for packed in self.said.values()):
            raise ValueError("an action is a text, with feedback if it could not be read")


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
            TypeError: if an action is of the wrong type.
            ValueError: if the action of an acting agent is missing.
            gymnasium.error.ResetNeeded: before the first reset or after the end of an episode.
        """
        game = self.game
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


Maker = Callable[..., Any]


def _split(
    game: type[TextGame], arguments: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Splits arguments into those of `PettingZooMixin` and those of the game."""
    known = {name: keyword_parameters(PettingZooMixin)[name] for name in SHOWN}
    check_arguments(game.__name__, {**optional(keyword_parameters(game)), **known}, arguments)
    shown = {name: value for name, value in arguments.items() if name in known}
    return shown, {name: value for name, value in arguments.items() if name not in known}


def make_pettingzoo(game: type[TextGame]) -> tuple[Maker, Maker, Maker]:
    """Returns the three constructors of a PettingZoo module: `env`, `raw_env`, `parallel_env`.

    They take the arguments of the game and of `PettingZooMixin` as keyword arguments.

    Raises:
        ConfigError: if `levels` does not start with "random", or if the game has scripted levels
            and `default_opponents` is none of them.
    """
    scripted = game.levels[1:]
    if game.levels[:1] != ("random",):
        raise ConfigError(f'{game.__name__}.levels must start with "random", got {game.levels!r}.')
    if scripted and game.default_opponents not in scripted:
        raise ConfigError(
            f"{game.__name__}.default_opponents must be one of the scripted levels {scripted!r}, "
            f"got {game.default_opponents!r}. Declare it in the class, beside `levels`."
        )

    def raw_env(**kwargs: Any) -> AECGame:
        shown, kwargs = _split(game, kwargs)
        return AECGame(game(**kwargs), **shown)

    def env(**kwargs: Any) -> OrderEnforcingWrapper[str, Observation, Any]:
        return OrderEnforcingWrapper(raw_env(**kwargs))

    def parallel_env(**kwargs: Any) -> ParallelGame:
        shown, kwargs = _split(game, kwargs)
        return ParallelGame(game(**kwargs), **shown)

    return env, raw_env, parallel_env
