"""The things of TwentyQuestions and their traits."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from agentgym.envs.lmrl.tables import entries


@dataclass(frozen=True)
class Thing:
    """A thing to guess.

    Attributes:
        names: its name and other names.
        size: from 1 (a coin) to 9 (a landscape).
        traits: its traits, by the names in the table.
    """

    names: tuple[str, ...]
    size: int
    traits: frozenset[str]

    @property
    def name(self) -> str:
        """The first of its names."""
        return self.names[0]


PLAIN = frozenset(
    "skis pants shoes boots socks gloves headphones scissors broccoli corn lettuce spinach garlic "
    "peas clay glue chopsticks grass rain snow sand building_blocks marbles dice playing_cards "
    "earrings sunglasses pliers tape".split()
)
"""Names that take no article, with "_" for a space."""
HOME = frozenset("house kitchen bedroom livingroom bathroom".split())


def implied(size: int, traits: frozenset[str] | set[str]) -> set[str]:
    """Returns the traits implied by a thing's size and other traits."""
    follows = {
        "manmade": "natural" not in traits,
        "house": bool(HOME & traits),
        "household": bool(HOME & traits),
        "machine": bool({"engine", "electricity"} & traits),
        "moving": bool({"vehicle", "legs", "flies", "swims", "wheels"} & traits),
        "tool": bool({"tooluse", "gardening"} & traits),
        "herbivore": "mammal" in traits and "predator" not in traits,
        "object": size < 9 and "sky" not in traits,
        "big": size > 6,
        "little": size <= 2,
        "inhand": size <= 3,
        "liftable": size <= 5 and "heavy" not in traits,
    }
    return {trait for trait, holds in follows.items() if holds}


@cache
def things() -> tuple[Thing, ...]:
    """Returns all things of the table."""
    found: list[Thing] = []
    common: set[str] = set()
    for line in entries("things"):
        if line.startswith("["):
            common = set(line.partition("]")[2].split())
        elif line:
            names, _, rest = line.partition(":")
            size, *words = rest.split()
            without = {word[1:] for word in words if word[0] == "-"}
            traits = common - without | {word for word in words if word[0] != "-"}
            traits |= implied(int(size), traits)
            found.append(Thing(tuple(names.split(";")), int(size), frozenset(traits)))
    return tuple(found)
