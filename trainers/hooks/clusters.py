"""`Clusters`: clusters of texts by their vectors."""

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
