"""The bundled shop: a seeded generator of products in the schema of the original's files.

Products come in families of four similar products: three of them differ from the first only in one
attribute, in the values of one option, or in the price. A product depends only on the seed and its
number, so a catalogue of 1,000 is the start of one of 1,000,000.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from agentgym.envs.webshop.catalogue import Catalogue, Record
from agentgym.envs.webshop.words import BRANDS, GROUPS, Group

VERSION = 8  # raise with every change of the products: part of the cache key
MAX_PRODUCTS = 1_000_000
FAMILY = 4
MAX_CHOICES = 12
_ASIN_SPACE = 9_000_000_000

T = TypeVar("T")


def generated_catalogue(num_products: int, seed: int = 0) -> Catalogue:
    """Returns the generated catalogue, created once and kept in the user's cache.

    Raises:
        ValueError: num_products is not in 1..1,000,000 or the seed is negative.
    """
    if not 1 <= num_products <= MAX_PRODUCTS:
        raise ValueError(
            f"num_products must be in 1..{MAX_PRODUCTS:,} for the generated catalogue, "
            f"got {num_products}."
        )
    if seed < 0:
        raise ValueError(f"catalogue_seed must be at least 0, got {seed}.")
    key = f"generated-{VERSION}-{seed}-{num_products}"
    return Catalogue.from_records(lambda: generate(num_products, seed), key=key)


def generate(num_products: int, seed: int = 0) -> Iterator[Record]:
    """Yields products with their annotations, in the schema of the original's files."""
    for number in range((num_products + FAMILY - 1) // FAMILY):
        family = _family(_Draw(seed * MAX_PRODUCTS + number))
        for member, item in enumerate(family[: num_products - number * FAMILY]):
            yield _record(item, asin(number * FAMILY + member, seed))


def asin(index: int, seed: int = 0) -> str:
    """Returns ten digits that differ between products from the first digits on."""
    spread = index * 5_562_306_487 + seed * 1_618_033 + 3_141_592_653
    return str(10**9 + spread % _ASIN_SPACE)


class _Draw:
    """Samples from sequences with `random.random`, which is stable across Python versions."""

    def __init__(self, seed: int):
        self.unit: Callable[[], float] = random.Random(seed).random

    def below(self, n: int) -> int:
        return int(self.unit() * n)

    def one(self, items: Sequence[T]) -> T:
        return items[int(self.unit() * len(items))]

    def some(self, items: Sequence[T], count: int) -> list[T]:
        """Returns `count` different items in their original order."""
        left = list(range(len(items)))
        picked = sorted(left.pop(int(self.unit() * len(left))) for _ in range(count))
        return [items[i] for i in picked]


@dataclass(frozen=True)
class _Item:
    """The parts of a product.

    Attributes:
        hidden: the attribute that the title leaves out: "feature" or "use".
        wanted: the attributes that its instruction names.
        cents, top_cents: the price, or the ends of a range of prices.
    """

    group: Group
    kind: str
    brand: str
    adjectives: tuple[str, ...]
    feature: str
    use: str
    options: dict[str, list[str]]
    cents: int
    top_cents: int
    hidden: str
    wanted: tuple[str, ...]


def _family(draw: _Draw) -> list[_Item]:
    """Returns four products, the last three each different from the first in one respect."""
    group = draw.one(GROUPS)
    low, high = group.prices
    cents = 100 * low + int(100 * (high - low) * draw.unit())
    cents -= cents % 50 - 49
    hidden = draw.one(("use", "use", "use", "feature"))
    base = _Item(
        group=group,
        kind=draw.one(tuple(group.kinds)),
        brand=draw.one(BRANDS),
        adjectives=tuple(draw.some(group.adjectives, 2)),
        feature=draw.one(group.features),
        use=draw.one(group.uses),
        options=_options(draw, group),
        cents=cents,
        top_cents=cents + 100 * (1 + draw.below(6)) if draw.unit() < 0.04 else cents,
        hidden=hidden,
        wanted=_wanted(draw, hidden),
    )
    return [base, _other_attribute(draw, base), _other_values(draw, base), _dearer(draw, base)]


def _wanted(draw: _Draw, hidden: str) -> tuple[str, ...]:
    """Returns the attributes in the instruction, rarely ones found only on the product's pages."""
    names = [draw.one(("first", "second"))] if draw.unit() < 0.75 else ["first", "second"]
    for name in ("feature", "use"):
        if draw.unit() < (0.25 if name == hidden else 0.75):
            names.append(name)
    return tuple(names)


def _options(draw: _Draw, group: Group) -> dict[str, list[str]]:
    """Returns up to three axes, mostly two or three, with at most twelve combinations."""
    number = draw.one((0, 1, 1, 1, *(2,) * 7, *(3,) * 9))
    axes = draw.some(tuple(group.options), min(number, len(group.options)))
    counts = [min(3 + draw.below(2), len(group.options[axis])) for axis in axes]
    while math.prod(counts) > MAX_CHOICES:
        counts[counts.index(max(counts))] -= 1
    return {axis: draw.some(group.options[axis], n) for axis, n in zip(axes, counts, strict=True)}


def _other(draw: _Draw, pool: Sequence[str], not_these: Sequence[str]) -> str:
    return draw.one([value for value in pool if value not in not_these])


def _other_attribute(draw: _Draw, base: _Item) -> _Item:
    group = base.group
    slot = draw.below(3)
    if slot == 0:
        other = _other(draw, group.adjectives, base.adjectives)
        return replace(base, adjectives=(base.adjectives[0], other))
    if slot == 1:
        return replace(base, feature=_other(draw, group.features, (base.feature,)))
    return replace(base, use=_other(draw, group.uses, (base.use,)))


def _other_values(draw: _Draw, base: _Item) -> _Item:
    """Returns the item with one option value replaced, or another use if it has no options."""
    axes = [a for a, values in base.options.items() if len(values) < len(base.group.options[a])]
    if not axes:
        return replace(base, use=_other(draw, base.group.uses, (base.use,)))
    axis = draw.one(axes)
    pool, values = base.group.options[axis], base.options[axis]
    kept = draw.some(values, len(values) - 1)
    new = _other(draw, pool, values)
    return replace(base, options={**base.options, axis: [v for v in pool if v in kept or v == new]})


def _dearer(draw: _Draw, base: _Item) -> _Item:
    # A price limit is at most 40 dollars above the price.
    more = 100 * (45 + draw.below(40))
    return replace(base, cents=base.cents + more, top_cents=base.top_cents + more)


def _record(item: _Item, asin: str) -> Record:
    group = item.group
    noun = group.kinds[item.kind]
    first, second = item.adjectives
    tail = f"with {item.feature}" if item.hidden == "use" else f"for {item.use}"
    title = f"{item.brand} {first} {second} {noun} {tail}".title()
    description = (
        f"This {noun} is {first} and {second}. It comes with {item.feature} "
        f"and is made for {item.use}."
    )
    price = f"${item.cents / 100:.2f}"
    if item.top_cents > item.cents:
        price += f" to ${item.top_cents / 100:.2f}"
    product = {
        "asin": asin,
        "name": title,
        "full_description": description,
        "small_description": [
            f"{first.capitalize()} and {second} {noun} ",
            f"Comes with {item.feature} ",
            f"Good choice for {item.use} ",
        ],
        "pricing": price,
        "images": [],
        "category": group.department,
        "query": item.kind,
        "product_category": " › ".join((*group.path, item.kind.title())),
        "customization_options": {
            axis: [{"value": value, "image": None} for value in values]
            for axis, values in item.options.items()
        },
    }
    named = {"first": first, "second": second, "feature": item.feature, "use": item.use}
    wanted = {name: named[name] for name in item.wanted}
    adjectives = ", ".join(wanted[name] for name in ("first", "second") if name in wanted)
    instruction = f"Find me {adjectives} {item.kind}"
    instruction += f" with {item.feature}" if "feature" in wanted else ""
    instruction += f" for {item.use}" if "use" in wanted else ""
    annotation = {
        "attributes": list(named.values()),
        "instruction": instruction,
        "instruction_attributes": list(wanted.values()),
    }
    return product, annotation, ()
