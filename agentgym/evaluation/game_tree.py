"""`GameTree`: every decision of a small game, found by playing it, and exact best responses.

Shapes: I information sets, A actions of all information sets, N nodes, E edges, P players.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from agentgym.agents.basic.view import View
from agentgym.errors import ConfigError
from agentgym.multiagent.game import TextGame
from agentgym.multiagent.seats import seat_view
from agentgym.utils.serialization import to_json

Floats = NDArray[np.float64]
History = tuple[tuple[str, str], ...]

END = 0
"""The node of all ends of the game."""


@dataclass
class GameTree:
    """The decisions of a game with `starts`, for any number of players and general payoffs.

    Players that act at the same time become successive nodes, the later ones without knowledge of
    the earlier choices. Nodes of equal states are one node if `history` is False.

    Attributes:
        players: number of players.
        views: view of each information set, as its player sees it.
        seats: player of each information set.
        first: index of the first action of each information set, and A at the end.
        player: player of each node. -1 for `END`.
        infoset: information set of each node. -1 for `END`.
        level: number of decisions before each node.
        edges: (parent, child, action index, rewards of all players) in no order.
        starts: (probability, node) of each start.
    """

    players: int
    views: list[View] = field(default_factory=list)
    seats: list[int] = field(default_factory=list)
    first: list[int] = field(default_factory=lambda: [0])
    player: list[int] = field(default_factory=lambda: [-1])
    infoset: list[int] = field(default_factory=lambda: [-1])
    level: list[int] = field(default_factory=lambda: [-1])
    edges: list[tuple[int, int, int, tuple[float, ...]]] = field(default_factory=list)
    starts: list[tuple[float, int]] = field(default_factory=list)

    @classmethod
    def of(cls, game: TextGame, *, history: bool = True, limit: int = 100_000) -> GameTree:
        """Enumerates a game.

        Args:
            game: the game. Its episode is replaced.
            history: whether information sets are told apart by the observations and actions of the
                player's earlier turns. False: by the current observation only.
            limit: maximum number of information sets.

        Raises:
            ConfigError: if the game has no `starts` or more information sets than `limit`, or if
                current observations alone do not define a best response.
        """
        tree = cls(len(game.possible_agents))
        builder = _Builder(tree, history, limit)
        for probability, state in game.starts():
            game.begin(game.tasks.train[0], state)
            past: dict[str, History] = dict.fromkeys(game.possible_agents, ())
            tree.starts.append((probability, builder.grow(game.copy(), {}, past, 0)))
        if not history:
            tree._check_recall(type(game).__name__)
        tree._arrange()
        return tree

    def _check_recall(self, name: str) -> None:
        """Raises a ConfigError if a player has forgotten a choice that tells states apart."""
        last = {node: (-1,) * self.players for _, node in self.starts}
        for parent, child, action, _ in sorted(self.edges, key=lambda e: self.level[e[0]]):
            player = self.player[parent]
            new = (*last[parent][:player], action, *last[parent][player + 1 :])
            old = last.get(child, new)
            last[child] = tuple(a if a == b else -2 for a, b in zip(old, new, strict=True))
        choices: dict[int, list[int]] = {}
        for node, infoset in enumerate(self.infoset[1:], 1):
            choices.setdefault(infoset, []).append(last[node][self.player[node]])
        if any(len(found) > 1 and (len({*found}) > 1 or -2 in found) for found in choices.values()):
            raise ConfigError(
                f"The observations of {name} do not contain the earlier choices of the player, so "
                "that a best response needs its history: use history=True."
            )

    def _arrange(self) -> None:
        """Prepares the arrays of `solve`: edges sorted by the level of the parent."""
        level = np.array(self.level)
        self.edges.sort(key=lambda edge: level[edge[0]])
        parent, child, action = np.array([edge[:3] for edge in self.edges], int).T
        gains = np.array([edge[3] for edge in self.edges], float)
        bounds = np.searchsorted(level[parent], np.arange(level.max() + 2))
        rows = [slice(a, b) for a, b in itertools.pairwise(bounds)]
        self._layers = [(parent[r], child[r], action[r], gains[r]) for r in rows]
        self._mover = np.array(self.player)

    def solve(self, probabilities: Sequence[Floats]) -> tuple[Floats, Floats]:
        """Returns the value of each player and the value of its best response, both [P].

        Args:
            probabilities: for each information set, the probabilities of its actions.
        """
        chosen = np.concatenate(probabilities)
        own = self._value(chosen)
        best = [self._value(self._respond(chosen, p))[p] for p in range(self.players)]
        return own, np.array(best)

    def _value(self, chosen: Floats) -> Floats:
        values = np.zeros((len(self.player), self.players))
        for parent, child, action, gains in reversed(self._layers):
            np.add.at(values, parent, chosen[action, None] * (gains + values[child]))
        return sum((p * values[node] for p, node in self.starts), np.zeros(self.players))

    def _respond(self, chosen: Floats, player: int) -> Floats:
        """Returns the action probabilities in which one player plays its best response."""
        reach = np.zeros(len(self.player))
        for probability, node in self.starts:
            reach[node] += probability
        theirs = [self._mover[parent] != player for parent, *_ in self._layers]
        for (parent, child, action, _), other in zip(self._layers, theirs, strict=True):
            np.add.at(reach, child, reach[parent] * np.where(other, chosen[action], 1.0))
        played, first = chosen.copy(), self.first
        values = np.zeros(len(self.player))
        worth = np.zeros(len(chosen))
        for (parent, child, action, gains), other in zip(
            reversed(self._layers), reversed(theirs), strict=True
        ):
            after = gains[:, player] + values[child]
            np.add.at(worth, action, reach[parent] * after)
            for infoset in {self.infoset[node] for node in parent[~other]}:
                actions = slice(first[infoset], first[infoset + 1])
                played[actions] = 0
                played[first[infoset] + worth[actions].round(12).argmax()] = 1
            np.add.at(values, parent, played[action] * after)
        return played


@dataclass
class _Builder:
    """The enumeration of a game, depth first.

    Attributes:
        tree: the tree to fill.
        history: see `GameTree.of`.
        limit: see `GameTree.of`.
        infosets: number of each information set by seat, observation and history.
        known: number of the nodes of known states, if there is no history.
        levels: number of decisions before each information set.
        rng: random generator of all views.
    """

    tree: GameTree
    history: bool
    limit: int
    infosets: dict[tuple[str, str, History], int] = field(default_factory=dict)
    known: dict[str, int] = field(default_factory=dict)
    levels: list[int] = field(default_factory=list)
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    def grow(
        self, game: TextGame, moves: dict[str, str], past: dict[str, History], level: int
    ) -> int:
        """Returns the node of a state, after adding it and all that follow.

        Args:
            game: the game, which is not changed.
            moves: choices of the players that act at the same time and have chosen.
            past: (observation, action) of the earlier turns of each player, if `history`.
            level: number of decisions before the node.
        """
        if not game.acting or game.stage():
            return END
        tree = self.tree
        if not self.history:
            assert game.episode is not None
            key = json.dumps([level, to_json(game.state), game.episode.news, moves])
            if key in self.known:
                return self.known[key]
            self.known[key] = len(tree.player)
        agent = next(agent for agent in game.acting if agent not in moves)
        infoset = self._infoset(game, agent, past[agent], level)
        node = len(tree.player)
        tree.player.append(tree.seats[infoset])
        tree.infoset.append(infoset)
        tree.level.append(level)
        seen = game.seen(agent)
        for number, action in enumerate(seen.admissible):
            chosen, then = {**moves, agent: action}, past
            if self.history:
                then = {**past, agent: (*past[agent], (seen.observation, action))}
            after, gains = game, (0.0,) * tree.players
            if len(chosen) == len(game.acting):
                after = game.copy()
                gains, chosen = _play(after, chosen), {}
            child = self.grow(after, chosen, then, level + 1)
            tree.edges.append((node, child, tree.first[infoset] + number, gains))
        return node

    def _infoset(self, game: TextGame, agent: str, past: History, level: int) -> int:
        """Returns the number of the information set of a player that acts."""
        tree, seen = self.tree, game.seen(agent)
        name = type(game).__name__
        key = agent, seen.observation, past
        if (number := self.infosets.get(key)) is not None:
            same = tree.views[number].info["admissible"] == seen.admissible
            if not same or self.levels[number] != level:
                raise ConfigError(
                    f"{name} cannot be evaluated exactly: {agent} sees the same observations "
                    "in states with other admissible actions or after other numbers of turns."
                )
            return number
        if not seen.admissible:
            raise ConfigError(
                f"{name} cannot be evaluated exactly: it lists no admissible actions for {agent}. "
                "Use a variant of the game with a closed set of actions."
            )
        if len(self.infosets) == self.limit:
            told = ", told apart by their history" if self.history else ""
            raise ConfigError(
                f"{name} has more than {self.limit:,} information sets{told}. Evaluate a smaller "
                "game or raise max_infosets. With an agent that uses the current observation only "
                "(a policy trained with --context current), equal positions count once."
            )
        number = self.infosets[key] = len(tree.views)
        self.levels.append(level)
        tree.views.append(seat_view(game, agent, self.rng, past))
        tree.seats.append(game.possible_agents.index(agent))
        tree.first.append(tree.first[-1] + len(seen.admissible))
        return number


def _play(game: TextGame, moves: dict[str, str]) -> tuple[float, ...]:
    """Plays a turn and returns the rewards of all players, for a whole stage."""
    playing = [not game.over(agent) for agent in game.possible_agents]
    game.play(moves)
    assert all(game.outcome(agent).valid for agent in moves), "admissible actions are valid"
    pairs = zip(game.possible_agents, playing, strict=True)
    rewards = [sum(game.outcome(a).rewards.values()) * present for a, present in pairs]
    return tuple(game.stages * reward for reward in rewards)
