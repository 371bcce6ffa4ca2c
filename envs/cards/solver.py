"""Equilibria and best responses of small two-player zero-sum games with hidden hands.

A game is represented by its *public tree* of events that both players observe. At every node all
hands are processed at once as vectors, so that a traversal costs a few matrix products.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

CHANCE = -1

Strategy = dict[str, np.ndarray]
"""Action probabilities (columns) per hand (rows), by key of the decision node."""


@dataclass
class Node:
    """A node of a public tree.

    Attributes:
        key: name of a decision node.
        player: player to act, 0 or 1, or CHANCE. The probabilities of a chance node are included in
            the payoffs of its subtrees.
        children: child nodes by action.
        payoffs: of a terminal node, the payoff of player 0 with each hand (rows) against each hand
            of player 1 (columns), times the probability of this deal.
    """

    key: str = ""
    player: int = CHANCE
    children: dict[str, Node] = field(default_factory=dict)
    payoffs: np.ndarray | None = None

    def decisions(self) -> Iterator[Node]:
        """Yields the decision nodes of the subtree."""
        if self.player != CHANCE:
            yield self
        for child in self.children.values():
            yield from child.decisions()


def equilibrium(tree: Node, hands: int, iterations: int) -> Strategy:
    """Returns an approximate Nash equilibrium of both players, by CFR+.

    Alternating updates, regrets clipped at zero, linear averaging: Tammelin, Solving Large
    Imperfect Information Games Using CFR+ (arXiv:1407.5042), in the vector form of Johanson et al.,
    Accelerating Best Response Calculation in Large Extensive Games (IJCAI 2011).

    Args:
        tree: the game.
        hands: number of different hands of a player.
        iterations: number of updates per player.
    """
    shapes = {node.key: (hands, len(node.children)) for node in tree.decisions()}
    regrets = {key: np.zeros(shape) for key, shape in shapes.items()}
    current = {key: np.full(shape, 1 / shape[1]) for key, shape in shapes.items()}
    average = {key: np.zeros(shape) for key, shape in shapes.items()}

    def improve(node: Node, me: int, mine: np.ndarray, theirs: np.ndarray) -> np.ndarray:
        if node.payoffs is not None:
            return node.payoffs @ theirs if me == 0 else -(theirs @ node.payoffs)
        children = node.children.values()
        if node.player == CHANCE:
            return np.sum([improve(child, me, mine, theirs) for child in children], axis=0)
        chances = current[node.key].T
        if node.player != me:
            pairs = zip(children, chances, strict=True)
            return np.sum([improve(child, me, mine, theirs * p) for child, p in pairs], axis=0)
        pairs = zip(children, chances, strict=True)
        values = np.array([improve(child, me, mine * p, theirs) for child, p in pairs])
        value = (chances * values).sum(axis=0)
        average[node.key] += (mine * chances).T
        regret = regrets[node.key]
        np.maximum(regret + (values - value).T, 0, out=regret)
        current[node.key] = normalised(regret)
        return value

    everything = np.ones(hands)
    for weight in range(1, iterations + 1):
        for me in (0, 1):
            improve(tree, me, everything * weight, everything)
    return {key: normalised(total) for key, total in average.items()}


def normalised(weights: np.ndarray) -> np.ndarray:
    """Normalises the last axis to probabilities. Rows of zeros become uniform."""
    totals = weights.sum(axis=-1, keepdims=True)
    return np.where(totals > 0, weights / np.where(totals > 0, totals, 1), 1 / weights.shape[-1])


def best_response(tree: Node, theirs: Strategy, me: int, hands: int) -> tuple[Strategy, float]:
    """Returns the best response of player `me` to a strategy, and its expected payoff."""
    mine: Strategy = {}

    def answer(node: Node, reach: np.ndarray) -> np.ndarray:
        if node.payoffs is not None:
            return node.payoffs @ reach if me == 0 else -(reach @ node.payoffs)
        children = node.children.values()
        if node.player == CHANCE:
            return np.sum([answer(child, reach) for child in children], axis=0)
        if node.player != me:
            pairs = zip(children, theirs[node.key].T, strict=True)
            return np.sum([answer(child, reach * p) for child, p in pairs], axis=0)
        values = np.array([answer(child, reach) for child in children])
        mine[node.key] = np.eye(len(values))[values.round(12).argmax(axis=0)]
        return values.max(axis=0)

    return mine, float(answer(tree, np.ones(hands)).sum())


def exploitability(tree: Node, strategy: Strategy, hands: int) -> float:
    """Returns the mean payoff of best responses over both seats. 0 for an equilibrium."""
    return sum(best_response(tree, strategy, me, hands)[1] for me in (0, 1)) / 2


def value(tree: Node, first: Strategy, second: Strategy, hands: int) -> float:
    """Returns the expected payoff of player 0."""

    def follow(node: Node, reach: tuple[np.ndarray, np.ndarray]) -> float:
        if node.payoffs is not None:
            return float(reach[0] @ node.payoffs @ reach[1])
        if node.player == CHANCE:
            return sum(follow(child, reach) for child in node.children.values())
        chances = (first, second)[node.player][node.key].T
        total = 0.0
        for child, p in zip(node.children.values(), chances, strict=True):
            after = (reach[0] * p, reach[1]) if node.player == 0 else (reach[0], reach[1] * p)
            total += follow(child, after)
        return total

    return follow(tree, (np.ones(hands), np.ones(hands)))
