"""Agents in the seats of a game: `GameSeat`, `seat_view` and `game_agent`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, cast

import gymnasium
import numpy as np

from agentgym.agents import MODELS, POLICY_AGENTS, Agent, ScriptedAgent, View, make_agent
from agentgym.agents.scaffolds import SCAFFOLDS, SEATED
from agentgym.errors import ConfigError, did_you_mean
from agentgym.multiagent.game import TextGame
from agentgym.multiagent.search import GameSearch
from agentgym.spaces import UnicodeText
from agentgym.utils.arguments import (
    check_arguments,
    keyword_parameters,
    parse_arguments,
    split_arguments,
)


class GameSeat(gymnasium.Env[str, str]):
    """A seat of a game in progress, as `View.env` of the agent in this seat.

    It gives agents the action space and the scripted players. `step` and `reset` are not available:
    the game is played for all seats together.

    Args:
        game: the game.
        agent: the seat, such as "player_0".
    """

    metadata = {"render_modes": []}  # noqa: RUF012  # declared by Gymnasium

    def __init__(self, game: TextGame, agent: str):
        self.game, self.agent = game, agent

    @functools.cached_property
    def action_space(self) -> UnicodeText:  # type: ignore[override]
        """The space of all texts."""
        return UnicodeText()

    @property
    def instructions(self) -> str:
        """Rules and action format."""
        return self.game.instructions_for(self.agent)

    @property
    def role(self) -> str:
        """The role of the agent in this seat."""
        return self.game.role(self.agent)

    def expert(self) -> str | None:
        """Returns the next action of the game's scripted expert, or None if it has none."""
        return self.game.expert(self.agent)

    def script(self, level: str, rng: np.random.Generator) -> str:
        """Returns the next action of a scripted player of a level."""
        return self.game.script(level, self.agent, rng)

    def script_probabilities(self, level: str) -> np.ndarray:
        """Returns the probabilities of a scripted player's actions, in order of `admissible`."""
        return self.game.script_probabilities(level, self.agent)


def seat_view(
    game: TextGame,
    agent: str,
    rng: np.random.Generator,
    history: Sequence[tuple[str, str]] = (),
) -> View:
    """Returns the view of one seat, which holds only what this seat may see.

    Args:
        game: the game in progress.
        agent: the seat.
        rng: random generator of the agent's choices.
        history: (observation, action) of the seat's earlier turns, oldest first.
    """
    view = View("", "", {}, rng, GameSeat(game, agent), list(history))
    refresh(view)
    return view


def refresh(view: View) -> None:
    """Sets the observation and the info of a seat's view to the current ones of its game."""
    seat: Any = view.env
    view.instructions = seat.instructions
    view.observation = seat.game.seen(seat.agent).observation
    view.info = seat.game.info(seat.agent)


GameAgent = Agent | Callable[[View], str] | str
"""An agent, a function from a view to an action, a scripted level, or a word for `make_agent`."""


class FunctionAgent:
    """A function as an agent.

    Args:
        function: returns the action for a `View`.
    """

    def __init__(self, function: Callable[[View], str]):
        self.function = function
        self.name = getattr(function, "__name__", type(function).__name__)

    def act(self, views: Sequence[View]) -> list[str]:
        """Returns an action for each view."""
        return [self.function(view) for view in views]


def game_agent(game: TextGame, agent: GameAgent) -> Agent:
    """Returns the agent that plays in seats of a game.

    Args:
        game: the game.
        agent: an agent, a function from a `View` to an action, a level of the game's scripted
            players, "expert" (its best level), "search:mcts" with the options of `GameSearch`, such
            as "search:mcts,budget=100", or another word for `make_agent`.

    Raises:
        ConfigError: for an unknown agent or level, or an agent that needs wrappers.
    """
    if isinstance(agent, str):
        made = _named(game, agent)
    elif hasattr(agent, "act") and hasattr(agent, "name"):
        made = cast(Agent, agent)
    elif callable(agent):
        made = FunctionAgent(agent)
    else:
        raise ConfigError(
            "Expected a level, an agent with `name` and `act(views)`, or a function of a View, "
            f"got {agent!r:.80} ({type(agent).__name__})."
        )
    wrap = tuple(map(str, getattr(made, "wrap", ())))
    several = getattr(made, "rehearses", False)
    if several or any(each.startswith("MultiTrial") for each in wrap):
        raise ConfigError(
            f"Agent {made.name!r} makes several attempts at a task, which the seats of a game do "
            f"not have. Agents that can play in them: {', '.join(_known(game))}."
        )
    if wrap:
        raise ConfigError(
            f"Agent {made.name!r} needs the wrappers {', '.join(wrap)}, which the seats "
            "of a game do not have. Train it without them, or evaluate it in a single seat."
        )
    return made


def _named(game: TextGame, word: str) -> Agent:
    if word == "expert":
        if game.expert_level is None:
            raise ConfigError(f"{type(game).__name__} has no scripted expert.")
        made = ScriptedAgent(game.expert_level)
        made.name = word
        return made
    if word in game.levels:
        return ScriptedAgent(word)
    kind = word.partition(":")[0].partition(",")[0]
    if kind == "search":
        return _search(word)
    if word == "human" or kind in (*POLICY_AGENTS, "chat", *SCAFFOLDS):
        return make_agent(word)
    known = _known(game)
    raise ConfigError(
        f"Unknown agent {word!r} for {type(game).__name__}.{did_you_mean(word, known)} "
        f"Known: {', '.join(known)}."
    )


def _known(game: TextGame) -> tuple[str, ...]:
    """Returns the words for agents in the seats of a game."""
    around = (f"{name}:AGENT" for name in SEATED)
    return (*game.levels, "expert", "human", "search:mcts", *MODELS, *around)


def _search(word: str) -> Agent:
    """Returns the search of a word such as "search:mcts,budget=100"."""
    algorithm, *words = split_arguments(word.partition(":")[2]) or [""]
    if algorithm != "mcts":
        raise ConfigError(
            f"In the seats of a game, the search is search:mcts, got {word!r}: the others plan for "
            "a single agent."
        )
    options = {"name": word, **parse_arguments(words)}
    check_arguments(f"Agent {word!r} in a game", keyword_parameters(GameSearch), options)
    return GameSearch(**options)
