"""`Shop`: catalogue, search index and goals, opened once per process for all environments."""

from __future__ import annotations

import functools
import hashlib
import random
from collections.abc import Callable
from typing import Any

import numpy as np

from agentgym.envs.webshop.catalogue import Catalogue, Product
from agentgym.envs.webshop.generator import generated_catalogue
from agentgym.envs.webshop.goals import Goals
from agentgym.envs.webshop.nouns import NounTagger, alphabetic_nouns, spacy_nouns
from agentgym.envs.webshop.reward import purchase_reward
from agentgym.envs.webshop.search import SearchIndex, find_products
from agentgym.errors import DataError
from agentgym.utils.file_cache import Shared, cached_by_files

_TAGGERS: dict[str, Callable[[], NounTagger]] = {
    "alphabetic": lambda: alphabetic_nouns,
    "spacy": spacy_nouns,
}


class Shop(Shared):
    """Products, goals and rewards of a shop: see `open_shop`.

    Attributes:
        catalogue: the products.
        goals: the shopping tasks.
        index: the search engine.
    """

    def __init__(self, catalogue: Catalogue, goals: Goals, nouns: NounTagger, arguments: Any):
        self.catalogue = catalogue
        self.goals = goals
        self.index = SearchIndex.load(catalogue)
        self._nouns = nouns
        self._arguments = arguments
        self._product = functools.lru_cache(maxsize=2048)(catalogue.__getitem__)
        self._search = functools.lru_cache(maxsize=512)(self.index.search)

    def __reduce__(self) -> tuple[Any, ...]:
        return open_shop, self._arguments

    def product(self, index: int) -> Product:
        """Returns a product."""
        return self._product(index)

    def find(self, keywords: str, seed: int) -> np.ndarray:
        """Returns the indices of the products that a search finds, best first, int64 (n,)."""
        if keywords.startswith("<") or len(keywords) > 1000:
            return find_products(self.index, keywords, random.Random(seed))
        return self._search(keywords)

    def instruction(self, goal: int) -> str:
        """Returns the instruction of a goal."""
        return self.goals[goal].instruction_text

    def buy(self, goal: int, product: int, options: dict[str, str]) -> float:
        """Returns the reward of buying a product with these options."""
        price = float(self.goals.prices[product])
        item = self.product(product)
        reward, _ = purchase_reward(item, self.goals[goal], price, options, self._nouns)
        return float(reward)

    @functools.cached_property
    def fingerprint(self) -> str:
        """Hash of the number of products and goals, all prices and a sample of the texts."""
        count = len(self.catalogue)
        digest = hashlib.sha256(f"{count} {len(self.goals)}".encode())
        digest.update(np.ascontiguousarray(self.goals.prices, dtype="<f8").tobytes())
        for i in range(0, count, max(1, count // 16)):
            product = self.catalogue[i]
            digest.update(f"{product.asin} {product.title} {product.options}\n".encode())
        for i in range(0, len(self.goals), max(1, len(self.goals) // 16)):
            digest.update(f"{self.goals[i].instruction_text}\n".encode())
        return digest.hexdigest()[:16]


@cached_by_files("data_dir", maxsize=8)
def open_shop(
    data_dir: str | None,
    num_products: int | None,
    human: bool,
    data_seed: int,
    catalogue_seed: int,
    tagger: str | NounTagger,
) -> Shop:
    """Returns a shop, shared by all callers with the same arguments.

    A pickled shop consists of its arguments.

    Args:
        data_dir: folder with the original's files, None for the generated catalogue.
        num_products: number of products, from the start, None for all products of the files.
        human: whether the goals are written by people instead of synthetic.
        data_seed: seed of prices and price limits.
        catalogue_seed: seed of the generated catalogue.
        tagger: extracts the nouns of a title: "alphabetic", "spacy" or a function.

    Raises:
        ValueError: an argument is out of its range.
        DataError: the files are missing or damaged, or yield no goal.
    """
    if isinstance(tagger, str) and tagger not in _TAGGERS:
        raise ValueError(
            f"tagger must be one of {', '.join(map(repr, _TAGGERS))} or a function from a text "
            f"to its nouns, got {tagger!r}."
        )
    if num_products is not None and num_products < 1:
        raise ValueError(f"num_products must be at least 1, got {num_products}.")
    if data_dir is not None:
        catalogue = Catalogue.load(data_dir, num_products)
    elif num_products is None:
        raise ValueError("num_products must be a number for the generated catalogue.")
    else:
        catalogue = generated_catalogue(num_products, catalogue_seed)
    goals = Goals.load(catalogue, human=human, data_seed=data_seed)
    if not len(goals):
        kind = "human" if human else "synthetic"
        raise DataError(f"The {len(catalogue):,} products come with no {kind} goal.")
    nouns = _TAGGERS[tagger]() if isinstance(tagger, str) else tagger
    arguments = (data_dir, num_products, human, data_seed, catalogue_seed, tagger)
    return Shop(catalogue, goals, nouns, arguments)
