"""Shopping goals: synthetic and human goals in the original's order."""

from __future__ import annotations

import bisect
import functools
import random
import threading
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import overload

import numpy as np

from agentgym.envs.webshop.catalogue import Catalogue, Product
from agentgym.utils import cache

FORMAT = 1
ORDER_SEED = 233
NO_PRICE_LIMIT = 1_000_000.0
_LADDER = [10.0 * i for i in range(1, 100)]
_open: dict[Path, Goals] = {}
_lock = threading.RLock()


@dataclass(frozen=True, slots=True)
class Goal:
    """A shopping goal. It is shared, so do not modify its dict.

    Attributes:
        asin: The target product. Category, query, name and product_category are taken from it.
        price_upper: The price limit in dollars.
        options: Option name -> value (synthetic) or values (human).
        weight: Weight in sampling.

    Raises:
        ValueError: There is no attribute, or `price_upper` is not positive. The reward is undefined
            for such a goal (the original raises ZeroDivisionError or TypeError at a purchase).
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

    def __post_init__(self) -> None:
        if not self.attributes:
            raise ValueError(f"The goal for {self.asin} needs at least one attribute.")
        if not self.price_upper > 0:
            raise ValueError(
                f"The goal for {self.asin} needs a positive price_upper, got {self.price_upper}."
            )


class Goals(Sequence[Goal]):
    """The goals of a catalogue, created on access from a few memory-mapped bytes each.

    The random samples are those of the original if its global generator is seeded with `data_seed`
    before loading: first a price per range-priced product, then a price limit per product with an
    instruction (synthetic) or per instruction (human). The order is that of the original, which
    shuffles with `order_seed`.

    Attributes:
        catalogue: The products.
        prices: The price of each product in dollars, float64 (products,).
    """

    def __init__(self, catalogue: Catalogue, directory: Path, human: bool):
        self.catalogue = catalogue
        self.directory = directory
        self.human = human
        self.prices = cache.load(directory, "prices")
        self._limits = cache.load(directory, "limits")
        self._ends = cache.load(directory, "ends")
        self._order = cache.load(directory, "order")
        self._weights = cache.load(directory, "weights")
        self._cumulative = cache.load(directory, "cumulative")
        self._made = functools.lru_cache(maxsize=256)(self._make)

    @classmethod
    def load(
        cls,
        catalogue: Catalogue,
        *,
        human: bool = False,
        data_seed: int = 0,
        order_seed: int = ORDER_SEED,
    ) -> Goals:
        """Opens the goals of a catalogue, building them first if they are not cached.

        Args:
            catalogue: The products.
            human: Whether to use instructions written by people instead of synthetic ones.
            data_seed: Seed of prices and price limits.
            order_seed: Seed of the order of the goals.

        Returns:
            The goals. The same arguments give the same object.
        """
        kind = "human" if human else "synthetic"
        target = catalogue.directory / f"goals-{FORMAT}-{kind}-{data_seed}-{order_seed}"
        with _lock:
            if target not in _open:
                built = cache.built(
                    target, lambda to: _write(to, catalogue, human, data_seed, order_seed)
                )
                _open[target] = cls(catalogue, built, human)
            return _open[target]

    @classmethod
    def _opened(cls, catalogue: Catalogue, directory: Path, human: bool) -> Goals:
        with _lock:
            if directory not in _open:
                _open[directory] = cls(catalogue, directory, human)
            return _open[directory]

    def __reduce__(self) -> tuple[Callable[..., Goals], tuple[Catalogue, Path, bool]]:
        return Goals._opened, (self.catalogue, self.directory, self.human)

    def __len__(self) -> int:
        return len(self._order)

    @overload
    def __getitem__(self, index: int) -> Goal: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Goal]: ...
    def __getitem__(self, index: int | slice) -> Goal | Sequence[Goal]:
        if isinstance(index, slice):
            return [self._made(i) for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(f"goal {index} of {len(self)}")
        return self._made(int(index) % len(self))

    def __iter__(self) -> Iterator[Goal]:
        return (self._make(i) for i in range(len(self)))

    def product_index(self, index: int) -> int:
        """Returns the index of the product that goal `index` was made from."""
        return int(np.searchsorted(self._ends, self._order[index], side="right"))

    def _make(self, index: int) -> Goal:
        number = int(self._order[index])  # of the goal before the shuffle
        row = self.product_index(index)
        product = self.catalogue[row]
        within = number - (int(self._ends[row - 1]) if row else 0)
        limit = float(self._limits[number if self.human else row])
        text, attributes, options = (_human if self.human else _synthetic)(product, within)
        return Goal(
            asin=product.asin,
            category=product.category,
            query=product.query,
            name=product.title,
            product_category=product.product_category,
            instruction_text=text + _limit_text(limit),
            attributes=attributes,
            price_upper=limit,
            options=options,
            weight=1.0 if self.human else float(self._weights[row]),
        )

    def weights(self, start: int = 0, stop: int | None = None) -> np.ndarray:
        """Returns the sampling weights of the goals start, ..., stop - 1, float64."""
        owners = np.searchsorted(self._ends, self._order[start:stop], side="right")
        return self._weights[owners]

    def sample(self, rng: np.random.Generator, start: int = 0, stop: int | None = None) -> int:
        """Samples a goal from start, ..., stop - 1 with probability proportional to its weight.

        Raises:
            ValueError: There is no such goal.
        """
        first, last, _ = slice(start, stop).indices(len(self))
        if first >= last:
            raise ValueError(f"There is no goal in {start}:{stop} of {len(self)} to sample from.")
        below = self._cumulative[first - 1] if first else 0.0
        position = below + rng.random() * (self._cumulative[last - 1] - below)
        found = int(np.searchsorted(self._cumulative, position, side="right"))
        return min(max(found, first), last - 1)  # rounding may step over either end

    def sample_like_original(self, rng: random.Random) -> int:
        """Samples a goal like the original, which is off by one.

        It bisects cumulative weights that begin with 0. Goal i + 1 is sampled with the weight of
        goal i, goal 0 is never sampled, and the last goal is also sampled with its own weight.
        """
        position = rng.uniform(0, float(self._cumulative[-1]))
        return min(bisect.bisect_right(self._cumulative, position) + 1, len(self) - 1)


def _synthetic(product: Product, within: int) -> tuple[str, tuple[str, ...], dict[str, str]]:
    """Returns text, attributes and options of the `within`-th combination of option values."""
    chosen: dict[str, str] = {}
    for name in sorted(product.options, reverse=True):  # the last option varies fastest
        within, place = divmod(within, len(product.options[name]))
        chosen[name] = product.options[name][place]
    options = {name: chosen[name] for name in sorted(chosen)}
    listed = ", and ".join(f"{name}: {value}" for name, value in options.items())
    text = f"{product.instruction}{' with ' if listed else ''}{listed}"
    return text, product.instruction_attributes, options


def _human(
    product: Product, within: int
) -> tuple[str, tuple[str, ...], dict[str, str] | tuple[str, ...]]:
    usable = [entry for entry in product.human_instructions if entry.attributes]
    entry = usable[within]
    return entry.text.strip("."), entry.attributes, entry.options


def _limit_text(limit: float) -> str:
    return "" if limit == NO_PRICE_LIMIT else f", and price lower than {limit:.2f} dollars"


def _draw_limit(price: float, rng: random.Random) -> float:
    """Returns the larger of two of the next four steps of 10 dollars above a price."""
    first = bisect.bisect_right(_LADDER, price)
    steps = _LADDER[first : first + 4]
    return max(rng.sample(steps, 2)) if len(steps) >= 2 else NO_PRICE_LIMIT


def _write(
    folder: Path, catalogue: Catalogue, human: bool, data_seed: int, order_seed: int
) -> None:
    rng = random.Random(data_seed)
    prices = catalogue.draw_prices(rng)
    counts = catalogue.human_counts if human else catalogue.goal_counts
    limits = np.full(int(counts.sum()) if human else len(catalogue), NO_PRICE_LIMIT)
    if human:
        owners = np.repeat(np.arange(len(catalogue)), counts)
        limits[:] = [_draw_limit(price, rng) for price in prices[owners].tolist()]
    else:
        asked = np.flatnonzero(counts >= 0)  # also if an option without values leaves no goal
        limits[asked] = [_draw_limit(price, rng) for price in prices[asked].tolist()]
    counts = np.maximum(counts, 0).astype(np.int64)
    order = array("I", range(int(counts.sum())))
    random.Random(order_seed).shuffle(order)
    weights = np.ones(len(catalogue)) if human else _synthetic_weights(catalogue, counts)
    owners = np.repeat(np.arange(len(catalogue), dtype=np.int32), counts)
    cache.save(folder, "prices", prices, "float64")
    cache.save(folder, "limits", limits, "float64")
    cache.save(folder, "ends", np.cumsum(counts), "int64")
    cache.save(folder, "order", order, "uint32")
    cache.save(folder, "weights", weights, "float64")
    cache.save(folder, "cumulative", np.cumsum(weights[owners[order]]), "float64")


def _synthetic_weights(catalogue: Catalogue, counts: np.ndarray) -> np.ndarray:
    """Returns, per product, the mean over its goal attributes of 1 / goals with the attribute."""
    codes, rows = catalogue.instruction_attribute_codes()
    goals_with = np.bincount(codes, weights=counts[rows])
    with np.errstate(divide="ignore"):  # an attribute of products without goals weighs nothing
        shares = np.where(goals_with > 0, 1.0 / goals_with, 0.0)[codes]
    sizes = np.bincount(rows, minlength=len(catalogue))
    sums = np.bincount(rows, weights=shares, minlength=len(catalogue))
    return np.divide(sums, sizes, out=np.zeros(len(catalogue)), where=sizes > 0)
