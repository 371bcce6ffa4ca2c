"""`GameSearch`: Monte-Carlo tree search in a game, in which every agent seeks its own return."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from agentgym.agents import View
from agentgym.errors import ConfigError
from agentgym.multiagent.env_game import EnvGame
from agentgym.multiagent.game import TextGame
from agentgym.snapshots import owner_of, state_key
from agentgym.utils.serialization import to_json

KEPT = 1 << 17
"""Maximum number of states that a search with `per_state` keeps."""


@dataclass(slots=True)
class Arm:
    """An action of an agent in a situation: its simulations, and the sum of their returns."""

    visits: int = 0
    total: float = 0.0

    @property
    def mean(self) -> float:
        """The mean return of the simulations."""
        return self.total / self.visits


@dataclass(eq=False, slots=True)
class Situation:
    """A sequence of actions of all agents, from the state of the episode on.

    Attributes:
        arms: the actions tried in it, of each agent that acts.
        following: the situation after the actions of a turn.
    """

    arms: dict[str, dict[str, Arm]] = field(default_factory=dict)
    following: dict[tuple[str, ...], Situation] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class Tree:
    """The tree of a search, and the range of returns in it.

    Attributes:
        exploration: the constant of the upper confidence bound.
        rng: random generator of the search.
        root: the situation before any action.
        low: the smallest return so far.
        high: the largest return so far.
    """

    exploration: float
    rng: np.random.Generator
    root: Situation = field(default_factory=Situation)
    low: float = math.inf
    high: float = -math.inf

    def simulate(self, game: TextGame) -> int:
        """Plays an episode to its end, learns from it, and returns its number of turns.

        The actions in known situations have the highest upper confidence bounds. After the first
        new situation, which becomes known, all actions are random.

        Args:
            game: a copy of the game in the state of the root. It is played to its end.
        """
        situation: Situation | None = self.root
        gains: list[dict[str, float]] = []
        path: list[tuple[Situation, dict[str, str]]] = []
        while game.acting:
            if situation is None:
                actions = {name: game.script("random", name, self.rng) for name in game.acting}
            else:
                actions = {name: self._select(situation, name, game) for name in game.acting}
                path.append((situation, actions))
                key = tuple(actions.values())
                known = situation.following.get(key)
                situation.following.setdefault(key, Situation())
                situation = known
            playing = [name for name in game.possible_agents if not game.over(name)]
            game.play(actions)
            gains.append({name: sum(game.outcome(name).rewards.values()) for name in playing})
        self._learn(path, gains)
        return len(gains)

    def _select(self, situation: Situation, agent: str, game: TextGame) -> str:
        """Returns an untried action at random, otherwise the one with the highest bound."""
        arms, admissible = situation.arms.setdefault(agent, {}), game.admissible(agent)
        if not admissible:
            raise ConfigError(
                f"{type(game).__name__} lists no admissible actions for {agent}, and a search "
                "tries these: use a variant with a menu of actions, or another agent."
            )
        if untried := [action for action in admissible if action not in arms]:
            return untried[int(self.rng.integers(len(untried)))]
        log = math.log(sum(arms[action].visits for action in admissible))
        span = max(self.high - self.low, 1e-9)

        def bound(action: str) -> float:
            arm = arms[action]
            return arm.mean / span + self.exploration * math.sqrt(log / arm.visits)

        return max(admissible, key=bound)

    def _learn(
        self, path: Sequence[tuple[Situation, dict[str, str]]], gains: list[dict[str, float]]
    ) -> None:
        """Adds the return from each known situation on to the action of each agent in it."""
        ahead: dict[str, float] = {}
        for turn in reversed(range(len(gains))):
            for agent, gain in gains[turn].items():
                ahead[agent] = ahead.get(agent, 0.0) + gain
            if turn < len(path):
                situation, actions = path[turn]
                for agent, action in actions.items():
                    arm = situation.arms[agent].setdefault(action, Arm())
                    arm.visits += 1
                    arm.total += ahead[agent]
                    self.low, self.high = min(self.low, ahead[agent]), max(self.high, ahead[agent])


class GameSearch:
    """Monte-Carlo tree search for the seats of a game, with random play beyond the tree.

    Each agent has upper confidence bounds of its own returns ("UCT", Kocsis & Szepesvari, 2006), so
    that the search fits games of two or more players, zero-sum or not. Agents that act in the same
    turn choose independently ("Monte Carlo Tree Search in Simultaneous Move Games", Tak, Lanctot &
    Winands, 2014). Chance events are sampled anew in every simulation. Returns are scaled to a
    range of 1. The most frequent action is played, after a search of its own in every turn. With a
    `temperature`, an action is sampled with a probability proportional to visits^(1 / temperature),
    as in AlphaZero (arXiv 1712.01815).

    The search knows the rules and the whole state of the game, hidden parts included, such as the
    cards of other players. In games with hidden information, results of agents that only observe
    are not comparable. The turns of its simulations are in `View.costs` as `search_steps`.

    With `per_state`, the random numbers of a search depend on the state of the game alone. The same
    state of a game with the same rules is then searched once. Without a temperature, it always has
    the same action.

    Which of several equally good actions is the most frequent is chance. A policy that imitates
    actions sampled with the temperature 1 fits the distribution of the visits, in which such
    actions are about as probable.

    Args:
        budget: episodes that are played to their end per search.
        exploration: the constant of the upper confidence bounds.
        per_state: searches each state once. The state is the game's `State`, with that of the
            environment in an `EnvGame`: it must hold all that the rules read, apart from the number
            of turns played.
        temperature: temperature of the choice of an action from the visits. 0: the most frequent
            one.
        name: name in reports.

    Raises:
        ConfigError: for a number out of range.
    """

    def __init__(
        self,
        *,
        budget: int = 100,
        exploration: float = 0.7,
        per_state: bool = False,
        temperature: float = 0.0,
        name: str = "search:mcts",
    ):
        if budget < 1:
            raise ConfigError(f"budget must be at least 1, got {budget}.")
        if exploration < 0:
            raise ConfigError(f"exploration must be at least 0, got {exploration}.")
        if temperature < 0:
            raise ConfigError(f"temperature must be at least 0, got {temperature}.")
        self.budget, self.exploration, self.name = budget, exploration, name
        self.per_state, self.temperature = per_state, temperature
        self._known: dict[tuple[str, str, str], dict[str, Arm]] = {}

    def act(self, views: Sequence[View]) -> list[str]:
        """Returns an action for each view of a seat.

        Raises:
            ConfigError: if the game lists no admissible actions.
        """
        return [self._act(view) for view in views]

    def _act(self, view: View) -> str:
        if len(forced := view.info["admissible"]) == 1:
            return forced[0]
        return self._choose(self._arms(view), view.rng)

    def _choose(self, arms: dict[str, Arm], rng: np.random.Generator) -> str:
        """Returns an action of the state."""
        if not self.temperature:
            return max(arms, key=lambda action: (arms[action].visits, arms[action].mean))
        visits = np.array([arm.visits for arm in arms.values()])
        shares = (visits / visits.max()) ** (1 / self.temperature)
        return [*arms][int(rng.choice(len(arms), p=shares / shares.sum()))]

    def _arms(self, view: View) -> dict[str, Arm]:
        """Returns the actions of the state, from a search or from an earlier one."""
        if not self.per_state:
            return self._search(view, view.rng)
        seat: Any = view.env
        game: TextGame = seat.game
        state = [type(game).__name__, seat.agent, list(game.acting), to_json(game.state)]
        owners = [owner_of(game)]
        if isinstance(game, EnvGame):
            state.append(state_key(game.inner.snapshot()))
            owners.append(owner_of(game.inner))
        key = json.dumps(state)
        # Games with other rules may have equal states. Instructions tell what a snapshot does not.
        place = (json.dumps(owners), game.instructions, key)
        if (known := self._known.get(place)) is not None:
            return known
        seed = int.from_bytes(hashlib.sha256(key.encode()).digest()[:16])
        arms = self._search(view, np.random.default_rng(seed))
        if len(self._known) < KEPT:
            self._known[place] = arms
        return arms

    def _search(self, view: View, rng: np.random.Generator) -> dict[str, Arm]:
        """Returns the actions that the simulations tried."""
        seat: Any = view.env
        tree = Tree(self.exploration, rng)
        for _ in range(self.budget):
            twin = seat.game.copy()
            twin.np_random = np.random.default_rng(int(rng.integers(2**63)))
            view.costs["search_steps"] += tree.simulate(twin)
        view.costs["searches"] += 1
        return tree.root.arms[seat.agent]
