"""The shop's products: read once from the original's files, cached on disk, decoded on access."""

from __future__ import annotations

import functools
import hashlib
import json
import math
import os
import random
import threading
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

import numpy as np

from agentgym.envs.webshop.records import DataFiles, Record, normalised
from agentgym.errors import DataError
from agentgym.utils import cache

FORMAT = 1  # raise with every change of the files or the loading rules
MOST_GOALS = 1 << 31
"""Maximum number of combinations of a product's options."""
_open: dict[Path, Catalogue] = {}
_lock = threading.RLock()


@dataclass(frozen=True, slots=True)
class HumanInstruction:
    """An instruction written by a person for one product."""

    text: str
    attributes: tuple[str, ...]
    options: tuple[str, ...] | dict[str, str]


@dataclass(frozen=True, slots=True)
class Product:
    """A product as shown in the shop. It is shared, so do not modify its dicts.

    Attributes:
        index: Position in the catalogue.
        category: One of a few departments, such as "garden".
        query: The search under which the product was found, lower case.
        product_category: Path of categories, separated by "›".
        pricing: The price, or the lower and the upper one of a range, in dollars.
        price_tag: "$12.99" or "$5.0 to $9.0".
        options: Option name -> values, all lower case, in the shop's order.
        option_images: Option value -> URL of its image, if available.
        instruction: The synthetic instruction, None if there is none.
    """

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
    """An immutable list of products, memory-mapped and shared within the process.

    Create it with `load` or `from_records`. It is pickled as the path of its folder.

    Attributes:
        directory: The folder of its files, which also holds the search index and the goals.
        goal_counts: Synthetic goals of each product, -1 without instruction, int64 (n,).
        human_counts: Human goals of each product, int32 (n,).
    """

    def __init__(self, directory: Path):
        self.directory = directory
        self._bytes = cache.load_bytes(directory, "products")
        self._starts = cache.load(directory, "starts")
        self._low = cache.load(directory, "price_low")
        self._high = cache.load(directory, "price_high")
        self.goal_counts = cache.load(directory, "goal_counts")
        self.human_counts = cache.load(directory, "human_counts")
        self._asins = cache.Facet(directory, "asin")
        self._categories = cache.Facet(directory, "category")
        self._queries = cache.Facet(directory, "query")
        self._attributes = cache.Facet(directory, "attribute")
        self._decoded = functools.lru_cache(maxsize=256)(self._decode)

    @classmethod
    def load(cls, data_dir: str | os.PathLike[str], num_products: int | None = None) -> Catalogue:
        """Opens the original's JSON files in `data_dir`: `items_shuffle*.json` and the rest.

        Args:
            data_dir: The folder, which must hold one file of each kind (or, as
                the original's, one without and one with the number of products in its name).
            num_products: Number of records to read from the start, None for all.

        Returns:
            The catalogue. The same files and number give the same object.

        Raises:
            DataError: A file is missing, truncated or of another schema.
        """
        if num_products is not None and num_products < 1:
            raise ValueError(f"num_products must be positive or None, got {num_products}.")
        files = DataFiles.find(Path(data_dir).expanduser(), num_products)
        key: list[Any] = [num_products]
        for path in (files.products, files.annotations, files.human):
            if path is not None:
                stat = path.stat()
                key.append([str(path.resolve()), stat.st_size, stat.st_mtime_ns])
        return cls._cached(
            json.dumps(key), lambda: files.records(num_products), files.products.name
        )

    @classmethod
    def from_records(
        cls, records: Callable[[], Iterable[Record]], *, key: str | None = None
    ) -> Catalogue:
        """Creates a catalogue from records in the original schema.

        Args:
            records: Returns the records. Called only if they are not cached under `key`.
            key: Cache key. The records must depend on it alone, and are kept in the user's
                cache. Without a key they are kept in a temporary folder of this process.

        Raises:
            DataError: A record is of another schema.
        """
        if key is not None:
            return cls._cached(json.dumps(["records", key]), records, key)
        directory = cache.temporary_folder() / "catalogue"
        return cls._opened(cache.built(directory, lambda to: _write(to, records(), "records")))

    @classmethod
    def _cached(cls, key: str, records: Callable[[], Iterable[Record]], source: str) -> Catalogue:
        name = hashlib.sha256(key.encode()).hexdigest()[:20]
        target = cache.cache_root() / "webshop" / f"{FORMAT}-{name}"
        with _lock:
            if target in _open:
                return _open[target]
            _open[target] = cls._opened(
                cache.built(target, lambda to: _write(to, records(), source))
            )
            return _open[target]

    @classmethod
    def _opened(cls, directory: Path) -> Catalogue:
        with _lock:
            if directory not in _open:
                _open[directory] = cls(directory)
            return _open[directory]

    def __reduce__(self) -> tuple[Callable[[Path], Catalogue], tuple[Path]]:
        return Catalogue._opened, (self.directory,)

    def __len__(self) -> int:
        return len(self._starts) - 1

    @overload
    def __getitem__(self, index: int) -> Product: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Product]: ...
    def __getitem__(self, index: int | slice) -> Product | Sequence[Product]:
        if isinstance(index, slice):
            return [self._decoded(i) for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(f"product {index} of a catalogue of {len(self)}")
        return self._decoded(int(index) % len(self))

    def __iter__(self) -> Iterator[Product]:
        return (self._decode(i) for i in range(len(self)))

    def _decode(self, index: int) -> Product:
        data = self._bytes[self._starts[index] : self._starts[index + 1]].tobytes()
        fields = json.loads(cache.decode(data))
        human = fields.pop("human")
        for name in ("bullet_points", "pricing", "attributes", "instruction_attributes"):
            fields[name] = tuple(fields[name])
        fields["options"] = {name: tuple(values) for name, values in fields["options"].items()}
        instructions = tuple(
            HumanInstruction(
                text, tuple(wanted), options if isinstance(options, dict) else tuple(options)
            )
            for text, wanted, options in human
        )
        return Product(index=index, human_instructions=instructions, **fields)

    def find(self, asin: str) -> int | None:
        """Returns the index of the product with this ASIN (upper case), None if there is none."""
        rows = self._asins.rows_of(asin)
        return int(rows[0]) if len(rows) else None

    @property
    def by_asin(self) -> np.ndarray:
        """The indices of all products, sorted by ASIN, int32 (n,)."""
        return self._asins.rows

    @property
    def categories(self) -> tuple[str, ...]:
        """The departments, sorted."""
        return tuple(cache.decode(value) for value in self._categories.values)

    def with_category(self, category: str) -> np.ndarray:
        """Returns the indices (ascending, int64) of the products of a department."""
        return self._categories.rows_of(category)

    def with_query(self, query: str) -> np.ndarray:
        """Returns the indices (ascending, int64) of the products with exactly this query."""
        return self._queries.rows_of(query)

    def with_attribute(self, attribute: str) -> np.ndarray:
        """Returns the indices (ascending, int64) of the products that have an attribute."""
        return np.unique(self._attributes.rows_of(attribute))

    def instruction_attribute_codes(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns (codes, product indices), in catalogue order, of all synthetic instructions."""
        codes = cache.load(self.directory, "wanted_codes")
        return codes, cache.load(self.directory, "wanted_rows")

    def draw_prices(self, rng: random.Random) -> np.ndarray:
        """Returns the price of every product, float64 (n,), with one sample per price range."""
        prices = self._low.copy()
        for i in np.flatnonzero(~np.isnan(self._high)).tolist():
            prices[i] = rng.uniform(float(self._low[i]), float(self._high[i]))
        return prices


def _write(folder: Path, records: Iterable[Record], source: str) -> None:
    """Writes the files of a catalogue, one product at a time."""
    starts, low, high = array("q", [0]), array("d"), array("d")
    goal_counts, human_counts = array("q"), array("i")
    facets = {name: _FacetPairs() for name in ("asin", "category", "query", "attribute", "wanted")}
    with (folder / "products.bin").open("wb") as file:
        for row, fields in enumerate(normalised(records, source)):
            encoded = cache.encode(json.dumps(fields, ensure_ascii=False, separators=(",", ":")))
            starts.append(starts[-1] + file.write(encoded))
            low.append(fields["pricing"][0])
            high.append(fields["pricing"][1] if len(fields["pricing"]) > 1 else np.nan)
            goal_counts.append(_goal_count(fields, f"{source}, product {fields['asin']}"))
            human_counts.append(sum(1 for _, wanted, _ in fields["human"] if wanted))
            for name in ("asin", "category", "query"):
                facets[name].add(row, [fields[name]])
            facets["attribute"].add(row, fields["attributes"])
            if fields["instruction"] is not None:
                facets["wanted"].add(row, fields["instruction_attributes"])
    if len(starts) == 1:
        raise DataError(f"{source} holds no product.")
    cache.save(folder, "starts", starts, "int64")
    cache.save(folder, "price_low", low, "float64")
    cache.save(folder, "price_high", high, "float64")
    cache.save(folder, "goal_counts", goal_counts, "int64")
    cache.save(folder, "human_counts", human_counts, "int32")
    wanted = facets.pop("wanted")
    cache.save(folder, "wanted_codes", wanted.codes, "int32")
    cache.save(folder, "wanted_rows", wanted.rows, "int32")
    for name, pairs in facets.items():
        cache.Facet.write(folder, name, pairs.codes_of, pairs.codes, pairs.rows)


def _goal_count(fields: dict[str, Any], where: str) -> int:
    """Returns the number of combinations of option values, -1 without an instruction."""
    if fields["instruction"] is None:
        return -1
    count = math.prod(len(values) for values in fields["options"].values())
    if count > MOST_GOALS:
        raise DataError(f"{where}: its options have more than {MOST_GOALS:,} combinations.")
    return count


class _FacetPairs:
    """Collects (value, row) pairs compactly."""

    def __init__(self) -> None:
        self.codes_of: dict[str, int] = {}
        self.codes, self.rows = array("i"), array("i")

    def add(self, row: int, values: Iterable[str]) -> None:
        for value in values:
            self.codes.append(self.codes_of.setdefault(value, len(self.codes_of)))
            self.rows.append(row)
