"""The shop's products: read from the original's JSON files, kept on disk, decoded on access."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

import numpy as np

Record = tuple[Mapping[str, Any], Mapping[str, Any] | None, Sequence[Mapping[str, Any]]]
"""A product in the original schema, its entry in `items_ins_v2` (or None), its human instructions."""


@dataclass(frozen=True, slots=True)
class HumanInstruction:
    """An instruction written by a person for one product."""

    text: str
    attributes: tuple[str, ...]
    options: tuple[str, ...] | dict[str, str]


@dataclass(frozen=True, slots=True)
class Product:
    """A product as the shop shows it."""

    index: int
    asin: str
    category: str
    query: str
    product_category: str
    title: str
    description: str
    bullet_points: tuple[str, ...]
    pricing: tuple[float, ...]
    price_tag: str
    options: dict[str, tuple[str, ...]]
    option_images: dict[str, str]
    main_image: str
    attributes: tuple[str, ...]
    instruction: str | None
    instruction_attributes: tuple[str, ...]
    human_instructions: tuple[HumanInstruction, ...]
    rating: str = "N.A."


class Catalogue(Sequence[Product]):
    """An immutable list of products, memory-mapped and shared by everything in the process."""

    directory: Path

    @classmethod
    def load(cls, data_dir: str | os.PathLike[str], num_products: int | None = None) -> Catalogue:
        """Opens the original's JSON files found in `data_dir`; the same arguments give the same object.

        Raises:
            DataError: A file is missing, truncated or of another schema.
        """
        raise NotImplementedError

    @classmethod
    def from_records(
        cls, records: Callable[[], Iterable[Record]], *, key: str | None = None
    ) -> Catalogue:
        """Makes a catalogue of records in the original schema; `records` is called only if not cached.

        With `key` (which must determine the records) it is kept in the user's cache and the same
        key gives the same object; without, it lives in a temporary folder until the process ends.
        """
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError

    @overload
    def __getitem__(self, index: int) -> Product: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Product]: ...
    def __getitem__(self, index: int | slice) -> Product | Sequence[Product]:
        raise NotImplementedError

    def find(self, asin: str) -> int | None:
        """Returns the index of the product with this asin (case-sensitive), None if there is none."""
        raise NotImplementedError

    def with_category(self, category: str) -> np.ndarray:
        """Returns the indices (ascending) of the products of a category such as "garden"."""
        raise NotImplementedError

    def with_query(self, query: str) -> np.ndarray:
        """Returns the indices (ascending) of the products filed under exactly this query."""
        raise NotImplementedError

    def with_attribute(self, attribute: str) -> np.ndarray:
        """Returns the indices (ascending) of the products that have this attribute."""
        raise NotImplementedError

    def draw_prices(self, rng: random.Random) -> np.ndarray:
        """Returns the price of every product, float64 (n,); one draw per range-priced product."""
        raise NotImplementedError
