"""What the shopper is asked to buy: synthetic and human goals in the original's order."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np

from agentgym.envs.webshop.catalogue import Catalogue


@dataclass(frozen=True, slots=True)
class Goal:
    """One shopping task.

    Raises:
        ValueError: There is no attribute, or `price_upper` is not positive (no reward is defined).
    """

    asin: str
    category: str
    query: str
    name: str
    product_category: str
    instruction_text: str
    attributes: tuple[str, ...]
    price_upper: float
    options: dict[str, str] | tuple[str, ...]
    weight: float = 1.0


class Goals(Sequence[Goal]):
    """The goals of a catalogue, made when asked for; `prices` are the products' prices.

    Attributes:
        catalogue: The products.
        prices: The price of each product, float64 (number of products,).
    """

    catalogue: Catalogue
    prices: np.ndarray

    @classmethod
    def load(
        cls,
        catalogue: Catalogue,
        *,
        human: bool = False,
        data_seed: int = 0,
        order_seed: int = 233,
    ) -> Goals:
        """Opens the goals; the same arguments give the same object."""
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError

    @overload
    def __getitem__(self, index: int) -> Goal: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Goal]: ...
    def __getitem__(self, index: int | slice) -> Goal | Sequence[Goal]:
        raise NotImplementedError

    def weights(self, start: int = 0, stop: int | None = None) -> np.ndarray:
        """Returns the sampling weights of goals start..stop-1, float64."""
        raise NotImplementedError

    def sample(self, rng: np.random.Generator, start: int = 0, stop: int | None = None) -> int:
        """Draws a goal index in start..stop-1 with probability proportional to its weight."""
        raise NotImplementedError

    def sample_like_original(self, rng: random.Random) -> int:
        """Draws as the original does: goal i + 1 with the weight of goal i, goal 0 never."""
        raise NotImplementedError
