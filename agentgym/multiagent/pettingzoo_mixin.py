"""`PettingZooMixin`: spaces, observations and rendering of the PettingZoo environments of games."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded

from agentgym.errors import ConfigError
from agentgym.multiagent.game import TextGame
from agentgym.rendering import draw
from agentgym.spaces import UnicodeText
from agentgym.utils.action_parsing import check_text, numbered
from agentgym.utils.arguments import check_render_mode, metadata_of
from agentgym.utils.printable import printable
from agentgym.utils.word_hash import WordHash

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
        render_mode: None, "ansi" (`render` returns text), "human" (prints the text every turn) or,
            in a game with pictures, "rgb_array" (`render` returns a picture).

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
        shown = metadata_of(pictures=game.has_pictures())
        check_render_mode(render_mode, shown["render_modes"])
        self.game = game
        self.action_mode = action_mode
        self.observation_size = observation_size
        self._hash = WordHash(observation_size) if observation_size else None
        self._numbers = {action: number for number, action in enumerate(game.actions)}
        self.render_mode = render_mode
        self.metadata: dict[str, Any] = {
            "name": type(game).__name__,
            **shown,
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
        """Rules and action format of all agents. Agents read those of `instructions_for`.

        Wrappers of PettingZoo are bypassed by `env.unwrapped.instructions`. The role of an agent,
        where a game has roles, is part of its observations.
        """
        return self.game.instructions

    def instructions_for(self, agent: str) -> str:
        """Returns the agent's system prompt, in most games the same for all agents.

        See `GameRules.instructions_for`.

        Raises:
            ConfigError: if there is no such agent.
        """
        if agent not in self.possible_agents:
            raise ConfigError(f"Expected one of {self.possible_agents}, got {agent!r:.80}.")
        return self.game.instructions_for(agent)

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

    def render(self) -> str | np.ndarray | None:
        """Returns the state for spectators, with what is hidden from single agents.

        Returns:
            Text in mode "ansi", or the picture, uint8 (256, 256, 3), in mode "rgb_array". None in
            mode "human", which prints the text at every turn.

        Raises:
            gymnasium.error.ResetNeeded: before the first reset.
            MissingExtraError: for a picture without the extra `render`.
        """
        if self.game.episode is None:
            raise ResetNeeded("Call reset() before render().")
        if self.render_mode == "rgb_array":
            return draw(self.game._frame(None))
        return self.game.picture() if self.render_mode == "ansi" else None

    def close(self) -> None:
        """Does nothing."""

    def _begin(self, seed: int | None, options: Mapping[str, Any] | None) -> None:
        # Options other than the task are ignored: PettingZoo's own tests pass some.
        options = {} if options is None else options
        if not isinstance(options, Mapping):
            raise TypeError(
                f'options must be a mapping, such as {{"task": "train/0"}}, got {options!r:.80}.'
            )
        self.game.reset(seed, options.get("task"))
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
            check_text(action)
            return action
        number, actions = numbered(action), self.game.actions
        return actions[number] if 0 <= number < len(actions) else f"action number {number}"
