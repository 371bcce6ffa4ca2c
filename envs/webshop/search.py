"""The shop's search engine: BM25 as Lucene computes it, over a memory-mapped inverted index."""

from __future__ import annotations

import random

import numpy as np

from agentgym.envs.webshop.catalogue import Catalogue

RESULT_LIMIT = 50


class SearchIndex:
    """An inverted index of a catalogue, memory-mapped and shared by everything in the process."""

    @classmethod
    def load(cls, catalogue: Catalogue) -> SearchIndex:
        """Opens the index of a catalogue, building it first where it is not cached."""
        raise NotImplementedError

    def search(self, query: str, k: int = RESULT_LIMIT) -> np.ndarray:
        """Returns the indices of the best k products, best first, int64 (<= k,)."""
        raise NotImplementedError

    def search_scored(self, query: str, k: int = RESULT_LIMIT) -> tuple[np.ndarray, np.ndarray]:
        """Returns the indices of the best k products and their scores, float32, best first."""
        raise NotImplementedError


def find_products(index: SearchIndex, keywords: str, rng: random.Random) -> np.ndarray:
    """Returns product indices for what an agent typed, special keywords included.

    `<r>`: 50 random products (from `rng`); `<c> category`, `<q> words`, `<a> attribute`: all
    products with exactly this category, query, attribute; anything else: the best 50.
    """
    raise NotImplementedError
