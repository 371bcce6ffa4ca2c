"""The agents in the other seats of games, which environments of a process share by name."""

from __future__ import annotations

from weakref import WeakValueDictionary

from agentgym.agents import Agent
from agentgym.errors import ConfigError, did_you_mean
from agentgym.multiagent.game import TextGame
from agentgym.multiagent.seats import GameAgent, game_agent
from agentgym.registration.entry import UNKNOWN

_NAMED: WeakValueDictionary[str, Agent] = WeakValueDictionary()
"""The agents that environments of this process loaded by name, such as policies."""


def shared_agent(game: TextGame, player: GameAgent) -> Agent:
    """Returns the agent of `game_agent`. Environments share one that they load by name.

    Raises:
        ConfigError: for an unknown agent or level.
    """
    if not isinstance(player, str) or ":" not in player:
        try:
            return game_agent(game, player)
        except ConfigError as error:
            hint = did_you_mean(player, [UNKNOWN]) if isinstance(player, str) else ""
            raise ConfigError(
                f"opponents: {error} Or {UNKNOWN!r}: a sampled level.{hint}"
            ) from None
    made = _NAMED.get(player)
    if made is None:
        made = _NAMED[player] = game_agent(game, player)
    return made
