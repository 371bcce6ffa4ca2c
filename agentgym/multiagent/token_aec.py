"""`TokenAEC`: a turn-based game in which agents act token by token."""

from __future__ import annotations

from typing import Any, Unpack, cast

import numpy as np
from gymnasium.spaces import Space
from pettingzoo import AECEnv
from pettingzoo.utils import BaseWrapper

from agentgym.errors import ConfigError, SnapshotError
from agentgym.spaces import UnicodeText
from agentgym.tokens.tokenizer import Tokenizer
from agentgym.tokens.view import TokenOptions, TokenSettings, TokenView
from agentgym.utils.action_parsing import numbered


class TokenAEC(BaseWrapper[str, dict[str, Any], Any]):
    """Makes each step of an agent one token. The game is played when an action is complete.

        env = TokenAEC(make_aec("TicTacToe-v0"), tokenizer, constrain=True)

    It is `agentgym.wrappers.TokenAction` for games. The arguments, the spaces and the info keys
    `turn_end` and `discount` are the same, for each agent. An agent stays selected until its action
    is complete, and its reward is 0 within an action. Its prompt holds the observations at its own
    turns. The action mask of agents that are not selected is 0, and their prompt is that of their
    last turn.

    Args:
        env: a turn-based game with text actions (`agentgym.make_aec`).
        tokenizer: any tokenizer of `transformers`, see `TokenAction`.
        **options: the further arguments of `TokenAction`.

    Raises:
        ConfigError: if the actions are not text, or an argument is invalid.
    """

    def __init__(
        self,
        env: AECEnv[str, dict[str, Any], Any],
        tokenizer: Tokenizer,
        **options: Unpack[TokenOptions],
    ):
        super().__init__(env)
        if not all(isinstance(env.action_space(a), UnicodeText) for a in env.possible_agents):
            raise ConfigError("TokenAEC needs a game with text actions: action_mode='text'.")
        self.settings = TokenSettings.checked("TokenAEC", tokenizer, options)
        self._views = {agent: TokenView(self.settings) for agent in env.possible_agents}
        self._ended = dict.fromkeys(env.possible_agents, False)
        self.observation_spaces: dict[str, Space[Any]] = {}
        self.action_spaces: dict[str, Space[Any]] = {}
        for agent in env.possible_agents:
            self.observation_spaces[agent] = self.settings.observation_space
            self.action_spaces[agent] = self.settings.action_space

    def observation_space(self, agent: str) -> Space[Any]:
        """Returns the agent's observation space, always the same object."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Space[Any]:
        """Returns the agent's action space, always the same object."""
        return self.action_spaces[agent]

    @property
    def infos(self) -> dict[str, dict[str, Any]]:  # type: ignore[override]
        """The infos of the game, with `turn_end` and `discount` of the agent's last token."""
        found = {}
        for agent, info in self.env.infos.items():
            ended = self._ended[agent]
            info = {**info, "turn_end": ended, "discount": self.settings.gamma if ended else 1.0}
            if (terms := info.get("reward_terms")) is not None:
                began = self._views[agent].action
                info["reward_terms"] = dict.fromkeys(terms, 0.0) if began else dict(terms)
            found[agent] = info
        return found

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Starts an episode: see `AECGame.reset`."""
        super().reset(seed, options)
        self._ended = dict.fromkeys(self.possible_agents, False)
        for view in self._views.values():
            view.begin()
        self._read()

    def observe(self, agent: str) -> dict[str, np.ndarray]:
        """Returns the prompt of the agent's last turn with its action so far."""
        observation = self._views[agent].observation()
        if agent != self.agent_selection or self._over(agent):
            observation["action_mask"][:] = 0
        return observation

    def step(self, action: Any) -> None:
        """Appends a token to the action of `agent_selection`, and plays the action if complete.

        Args:
            action: the token. None if the episode is over for the agent.

        Raises:
            TypeError: if the token is not an integer.
            ValueError: if the token is not in [0, V).
        """
        agent = self.agent_selection
        if self._over(agent):
            super().step(action)
            self._read()
            return
        token = numbered(action)
        if not 0 <= token < self.settings.size:
            raise ValueError(f"A token is an integer in [0, {self.settings.size}), got {token}.")
        text = self._views[agent].append(token)
        self._ended[agent] = text is not None
        if text is None:
            game = self.unwrapped
            game._cumulative_rewards[agent] = 0.0
            game._clear_rewards()
            return
        super().step(text)
        self._read()

    def snapshot(self) -> dict[str, Any]:
        """Raises SnapshotError: the state of a game does not hold the tokens of its agents."""
        raise SnapshotError("TokenAEC has no snapshots. Those of the game are env.env.snapshot().")

    def restore(self, snapshot: Any) -> None:
        """Raises SnapshotError: see `snapshot`."""
        self.snapshot()

    def _over(self, agent: str) -> bool:
        return self.terminations.get(agent, True) or self.truncations[agent]

    def _read(self) -> None:
        """Shows the selected agent its observation."""
        if self.agents:
            agent, game = self.agent_selection, cast(Any, self.unwrapped)
            text = game.observe(agent)["text"]
            view, ended = self._views[agent], self._over(agent)
            view.read(text, game.infos[agent], game.game.instructions_for(agent), ended=ended)
