"""`AbstractGame`: a small game of clustered situations and actions, solved by regret matching."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Embed = Callable[[Sequence[str]], Floats]
"""Maps texts to vectors [n, d], which are compared by their distance."""

DIMENSIONS = 256
"""Length of a text's vector."""
STARTS, STEPS = 8, 10
"""Runs of k-means, and their steps."""


def embed(texts: Sequence[str]) -> Floats:
    """Returns the hashed counts of words and pairs of words of each text [n, d], of length 1."""
    found = np.zeros((len(texts), DIMENSIONS))
    for row, text in zip(found, texts, strict=True):
        words = text.lower().split()
        for term in (*words, *map(" ".join, pairwise(words))):
            row[zlib.crc32(term.encode()) % DIMENSIONS] += 1
    return found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-12)


class Clusters:
    """Clusters of texts by their vectors.

    Up to `size` different texts are clusters of their own. With more of them in the first call, the
    centres are those of k-means. Later texts belong to the nearest centre.

    Args:
        size: largest number of clusters.
        centres: the centres [k, d].
        embed: the vectors of texts.
    """

    def __init__(self, size: int, centres: Any = (), embed: Embed = embed):
        self.size, self.embed = size, embed
        self.centres: Floats = np.array(centres, np.float64)

    def assign(self, texts: Sequence[str], rng: np.random.Generator) -> Ints:
        """Returns the cluster of each text [n], and makes new clusters while there is room."""
        if not len(texts):
            return np.zeros(0, np.int64)
        names = {text: i for i, text in enumerate(sorted(set(texts)))}
        vectors, index = self.embed([*names]), np.array([names[text] for text in texts], np.int64)
        if not len(self.centres):
            self.centres = np.zeros((0, vectors.shape[1]))
        if not len(self.centres) and len(names) > self.size:
            self.centres = _k_means(vectors, self.size, rng)
        for vector in vectors:
            if len(self.centres) == self.size:
                break
            if not (np.abs(self.centres - vector).sum(1) < 1e-9).any():
                self.centres = np.vstack([self.centres, vector])
        return _nearest(vectors, self.centres)[index]


def _nearest(vectors: Floats, centres: Floats) -> Ints:
    return np.argmax(vectors @ centres.T - (centres**2).sum(1) / 2, axis=1)


def _k_means(vectors: Floats, k: int, rng: np.random.Generator) -> Floats:
    """Returns the centres [k, d] of the best of several runs, which start from distant vectors."""
    found = [_one_run(vectors, k, rng) for _ in range(STARTS)]
    return min(found, key=lambda centres: _distances(vectors, centres).min(1).sum())


def _one_run(vectors: Floats, k: int, rng: np.random.Generator) -> Floats:
    centres = vectors[[rng.integers(len(vectors))]]
    nearest = np.full(len(vectors), np.inf)
    while len(centres) < k:  # k-means++
        nearest = np.minimum(nearest, _distances(vectors, centres[-1:])[:, 0])
        share = nearest / nearest.sum() if nearest.sum() > 0 else None
        centres = np.vstack([centres, vectors[rng.choice(len(vectors), p=share)]])
    for _ in range(STEPS):
        owner = _nearest(vectors, centres)
        for i in set(owner.tolist()):
            centres[i] = vectors[owner == i].mean(0)
    return centres


def _distances(vectors: Floats, centres: Floats) -> Floats:
    """Returns the squared distances [n, k]."""
    lengths = (vectors**2).sum(1)[:, None] + (centres**2).sum(1)
    return np.maximum(lengths - 2 * vectors @ centres.T, 0)


class AbstractGame:
    """Regrets of the latent actions of a role in its abstract situations.

    Regret matching with regrets of at least 0 and linear weights of the average strategy, as in
    CFR+ (Tammelin et al., Solving Heads-up Limit Texas Hold'em, IJCAI 2015).

    Args:
        situations: largest number of abstract situations.
        latents: largest number of latent actions.
        embed: the vectors of texts.
    """

    def __init__(self, situations: int, latents: int, embed: Embed = embed):
        self.situations = Clusters(situations, embed=embed)
        self.latents = Clusters(latents, embed=embed)
        self.regrets = np.zeros((situations, latents))
        self.strategies = np.zeros((situations, latents))
        self.updates = 0

    def strategy(self) -> Floats:
        """Returns the probability of each latent action in each situation [m, k]."""
        return _normalised(self.regrets, len(self.latents.centres))

    def average(self) -> Floats:
        """Returns the average strategy of all updates [m, k]."""
        return _normalised(self.strategies, len(self.latents.centres))

    def update(self, situations: Ints, latents: Ints, outcomes: Floats) -> None:
        """Adds the regrets of sampled actions.

        The value of a latent action is its mean outcome in the situation. Latent actions that were
        not sampled keep their regrets. A situation counts as often as it was sampled.

        Args:
            situations: [n] situation of each sample.
            latents: [n] latent action of each sample.
            outcomes: [n] outcome of each sample for the role.
        """
        self.updates += 1
        counts, totals = np.zeros_like(self.regrets), np.zeros_like(self.regrets)
        np.add.at(counts, (situations, latents), 1)
        np.add.at(totals, (situations, latents), outcomes)
        values, strategy = totals / np.maximum(counts, 1), self.strategy()
        sampled = strategy * (counts > 0)
        reach = counts.sum(1, keepdims=True)
        share = sampled.sum(1, keepdims=True)
        sampled = np.where(share > 0, sampled / np.maximum(share, 1e-12), counts / reach.clip(1))
        value = (sampled * values).sum(1, keepdims=True)
        change = reach * (values - value) * (counts > 0)
        self.regrets = np.maximum(self.regrets + change, 0)
        self.strategies += self.updates * reach * self.strategy()

    def state_dict(self) -> dict[str, Any]:
        """Returns the state as plain Python values."""
        return {
            "situations": self.situations.centres.tolist(),
            "latents": self.latents.centres.tolist(),
            "regrets": self.regrets.tolist(),
            "strategies": self.strategies.tolist(),
            "updates": self.updates,
        }

    @classmethod
    def restored(cls, state: dict[str, Any], embed: Embed = embed) -> AbstractGame:
        """Returns the game of a checkpoint, whose centres are of the same kind of vectors."""
        regrets = np.array(state["regrets"])
        situations, latents = regrets.shape
        game = cls(situations, latents, embed)
        game.situations = Clusters(game.situations.size, state["situations"], embed)
        game.latents = Clusters(game.latents.size, state["latents"], embed)
        game.regrets, game.strategies = regrets, np.array(state["strategies"])
        game.updates = state["updates"]
        return game


def _normalised(weights: Floats, used: int) -> Floats:
    """Returns rows of sum 1, which are uniform over the first `used` entries if all are 0."""
    total = weights.sum(1, keepdims=True)
    uniform = (np.arange(weights.shape[1]) < used) / max(used, 1)
    return np.where(total > 0, weights / np.where(total > 0, total, 1), uniform)
