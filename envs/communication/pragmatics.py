"""Objects and descriptions: literal and pragmatic interpretation, and the optimal code."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from itertools import combinations

from agentgym.reading import normalized

ATTRIBUTES = {
    "size": ("small", "medium", "large"),
    "pattern": ("striped", "dotted", "plain"),
    "colour": ("red", "green", "blue", "yellow"),
    "shape": ("circle", "square", "star", "heart"),
}
"""Values of the attributes. An object has one of each, in this order."""
WORDS = tuple(word for values in ATTRIBUTES.values() for word in values)

_WORD = re.compile(r"[\w']+")
_ARTICLES = frozenset("a an the any".split())
_NEGATIONS = frozenset("not no non never without neither nor".split())

Thing = tuple[str, ...]
Scene = tuple[Thing, ...]


def literal(scene: Scene, said: str) -> list[int]:
    """Returns the objects for which the most words of a description are true.

    Only attribute words count. A word after "not", "no" or "without" is negated ("not the red").
    """
    words = [w for w in _WORD.findall(normalized(said).casefold()) if w not in _ARTICLES]
    fits = [0] * len(scene)
    for i, word in enumerate(words):
        if word in WORDS:
            negated = i > 0 and (words[i - 1] in _NEGATIONS or words[i - 1].endswith("n't"))
            fits = [n + ((word in thing) != negated) for n, thing in zip(fits, scene, strict=True)]
    return [i for i, n in enumerate(fits) if n == max(fits)]


@lru_cache(maxsize=4096)
def descriptions(thing: Thing, most: int) -> tuple[str, ...]:
    """Returns the true descriptions of an object with at most `most` words, shortest first."""
    return tuple(
        " ".join(words)
        for count in range(1, min(most, len(thing)) + 1)
        for words in combinations(thing, count)
    )


@lru_cache(maxsize=256)
def having(scene: Scene) -> dict[str, int]:
    """Returns the objects that each word is true of, as bit sets."""
    found: dict[str, int] = {}
    for i, thing in enumerate(scene):
        for word in thing:
            found[word] = found.get(word, 0) | 1 << i
    return found


def bearers(scene: Scene, thing: Thing, most: int) -> dict[str, int]:
    """Returns the descriptions of an object with the number of objects that each is true of."""
    objects, found = having(scene), {}
    for said in descriptions(thing, most):
        bits = -1
        for word in said.split():
            bits &= objects[word]
        found[said] = bits.bit_count()
    return found


@cache
def worth(count: int, words: int, cost: float) -> float:
    """Returns the worth of a description of some words that is true of `count` objects."""
    return round(1 / count - cost * words, 9)


def plain_choice(scene: Scene, target: int, most: int, cost: float) -> str:
    """Returns the best description for a literal listener. Ties go to the shortest one."""
    counts = bearers(scene, scene[target], most)
    return max(counts, key=lambda said: worth(counts[said], said.count(" ") + 1, cost))


@lru_cache(maxsize=4096)
def pragmatic(scene: Scene, most: int, cost: float) -> dict[str, list[int]]:
    """Returns the objects that a pragmatic listener infers from each description.

    These are the objects for which a speaker would choose the description for a literal listener
    (one step of the rational speech act model). Descriptions that no speaker chooses are missing.
    """
    meant: dict[str, list[int]] = {}
    for i in range(len(scene)):
        meant.setdefault(plain_choice(scene, i, most, cost), []).append(i)
    return meant


def understood(scene: Scene, said: str, most: int, cost: float) -> list[int]:
    """Returns the possible targets of a description for a pragmatic listener."""
    return pragmatic(scene, most, cost).get(said) or literal(scene, said)


def best_choice(scene: Scene, target: int, most: int, cost: float) -> str:
    """Returns the best description for a pragmatic listener."""
    meant, counts = pragmatic(scene, most, cost), bearers(scene, scene[target], most)

    def gain(said: str) -> float:
        fits = meant.get(said)
        chance = (target in fits) / len(fits) if fits else 1 / counts[said]
        return round(chance - cost * len(said.split()), 9)

    return max(counts, key=gain)


@lru_cache(maxsize=4096)
def convention(scene: Scene, most: int) -> dict[str, Thing]:
    """Returns the cheapest code in which every object has a unique true description.

    Sets of descriptions that can be assigned to different objects form a matroid. Adding the
    shortest descriptions first, by augmenting paths, is therefore optimal, first in the number of
    distinguishable objects, then in words. Surplus objects have no description.
    """
    bears: dict[str, list[Thing]] = {}
    for thing in sorted(scene):
        for said in descriptions(thing, most):
            bears.setdefault(said, []).append(thing)
    code: dict[Thing, str] = {}

    def augment(said: str, tried: set[Thing]) -> bool:
        for thing in bears[said]:
            if thing not in tried:
                tried.add(thing)
                if thing not in code or augment(code[thing], tried):
                    code[thing] = said
                    return True
        return False

    for said in sorted(bears, key=lambda said: (len(said.split()), said)):
        augment(said, set())
    return {said: thing for thing, said in code.items()}
