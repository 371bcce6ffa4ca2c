"""Zebra puzzles: worlds, clues, and puzzles with exactly one solution."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import permutations
from operator import mod

import numpy as np

from agentgym.reading import normalized
from agentgym.tasks import task_rng

PEOPLE = ("Anna", "Ben", "Clara", "David", "Emma")
VALUES = (
    PEOPLE,
    tuple(f"the owner of the {pet}" for pet in ("cat", "dog", "fish", "parrot", "rabbit")),
    tuple(f"the one who drinks {drink}" for drink in ("tea", "milk", "juice", "water", "coffee")),
    tuple(f"the one in the {colour} house" for colour in ("red", "green", "blue", "white", "grey")),
)
"""Attributes of the people, names first. Each attribute has one value per house."""
RELATIONS = {
    "is {}": lambda i, j: i == j,
    "is not {}": lambda i, j: i != j,
    "lives next to {}": lambda i, j: abs(i - j) == 1,
    "lives directly left of {}": lambda i, j: i + 1 == j,
    "lives somewhere left of {}": lambda i, j: i < j,
}
PLACES = {
    "lives in house {}": lambda i, house: i == house,
    "does not live in house {}": lambda i, house: i != house,
}
WEIGHTS = {" is not ": 1.0, " is ": 0.5, " lives in house ": 0.2}
"""Sampling weights of kinds of clues (default 1.0). Informative clues are rarer."""

Size = tuple[int, int]
"""Houses and attributes."""


def count_worlds(size: Size) -> int:
    """Returns the number of assignments of values to houses."""
    return math.factorial(size[0]) ** size[1]


@cache
def _places(houses: int) -> np.ndarray:
    """Returns the house of each value in all permutations, shape (houses!, houses)."""
    return np.array(list(permutations(range(houses))))


@cache
def _at_house(houses: int) -> np.ndarray:
    """Returns the permutations as one-hot arrays, shape (houses!, houses, houses)."""
    return (_places(houses)[:, :, None] == np.arange(houses)).astype(np.int64)


@cache
def clues(size: Size) -> dict[str, np.ndarray]:
    """Returns all clues with their masks of the worlds in which they are true.

    A mask has one axis per attribute, of length houses!, or of length 1 if the clue does not
    depend on the attribute.
    """
    houses, attributes = size
    order = _places(houses)
    values = [(a, v) for a in range(attributes) for v in range(houses)]
    found: dict[str, np.ndarray] = {}
    for a, v in values:
        name = VALUES[a][v]
        for words, holds in PLACES.items():
            for house in range(houses):
                mask = np.vectorize(holds)(order[:, v], house)
                found[sentence(name, words, str(house + 1))] = _along(mask, size, a)
        for b, u in values:
            if (a, v) == (b, u):
                continue
            for words, holds in RELATIONS.items():
                if a == b and words.startswith("is"):
                    continue
                if a == b:
                    mask = np.vectorize(holds)(order[:, v], order[:, u])
                    found[sentence(name, words, VALUES[b][u])] = _along(mask, size, a)
                else:
                    mask = np.vectorize(holds)(order[:, v, None], order[None, :, u])
                    mask = mask if a < b else mask.T
                    found[sentence(name, words, VALUES[b][u])] = _along(mask, size, a, b)
    return found


def _along(mask: np.ndarray, size: Size, *axes: int) -> np.ndarray:
    shape = [mask.shape[0] if a in axes else 1 for a in range(size[1])]
    return mask.reshape(shape)


def sentence(name: str, words: str, rest: str) -> str:
    """Returns a clue as a sentence."""
    said = f"{name} {words.format(rest)}."
    return said[0].upper() + said[1:]


@cache
def _by_words(size: Size) -> dict[str, str]:
    return {clue.casefold().rstrip("."): clue for clue in clues(size)}


@lru_cache(maxsize=4096)
def heard(size: Size, text: str) -> tuple[str, ...]:
    """Returns the clues stated in a text, at most one per sentence. Ignores other sentences."""
    parts = (" ".join(part.split()) for part in re.split(r"[.;!\n]", normalized(text).casefold()))
    return tuple(_by_words(size)[part] for part in parts if part in _by_words(size))


@lru_cache(maxsize=128)
def worlds(size: Size, known: frozenset[str]) -> np.ndarray:
    """Returns the mask of worlds in which all these clues are true, with one axis per attribute."""
    mask = np.ones((math.factorial(size[0]),) * size[1], dtype=bool)
    for clue in sorted(known):
        mask = mask & clues(size)[clue]
    return mask


@lru_cache(maxsize=4096)
def odds(size: Size, known: frozenset[str], about: tuple[int, int]) -> tuple[float, ...]:
    """Returns the probability that each person is the answer, with a uniform prior over worlds.

    Args:
        size: size of the puzzle.
        known: clues assumed to be true.
        about: attribute and value of the question.

    Returns:
        One probability per person. Empty if the clues contradict each other.
    """
    mask, (a, v) = worlds(size, known), about
    others = tuple(axis for axis in range(size[1]) if axis not in (0, a))
    count = mask.sum(axis=others)  # by the order of people and the order of the attribute
    total = int(count.sum())
    if not total:
        return ()
    at_house = _at_house(size[0])
    found = np.einsum("iph,ih->p", at_house, count @ at_house[:, v])
    return tuple((found / total).round(9).tolist())


@dataclass(frozen=True)
class Puzzle:
    """The clues of each player, the question (attribute, value) and the index of the answer."""

    hands: tuple[tuple[str, ...], ...]
    about: tuple[int, int]
    answer: int


def solve(size: Size, known: Iterable[str]) -> int:
    """Returns the number of worlds consistent with the clues. 1 means a unique solution."""
    return int(np.count_nonzero(worlds(size, frozenset(known))))


@cache
def _catalogue(size: Size) -> tuple[tuple[str, ...], np.ndarray]:
    """Returns all clues and their sampling weights."""
    weights = [next((w for words, w in WEIGHTS.items() if words in c), 1.0) for c in clues(size)]
    return tuple(clues(size)), np.array(weights)


def _enough(size: Size, rng: np.random.Generator) -> list[str]:
    """Returns a minimal set of clues with exactly one solution."""
    shape = (math.factorial(size[0]),) * size[1]
    world = tuple(int(rng.integers(n)) for n in shape)
    names, weights = _catalogue(size)
    # Weighted sampling without replacement: order by exponential times.
    times = rng.exponential(size=len(names)) / weights
    chosen: list[str] = []
    mask, left = np.ones(shape, dtype=bool), count_worlds(size)
    for i in np.argsort(times, kind="stable"):
        clue = clues(size)[names[i]]
        if not clue[tuple(map(mod, world, clue.shape))]:  # index 0 along an axis of length 1
            continue
        after = mask & clue
        if (n := int(np.count_nonzero(after))) < left:
            chosen.append(names[i])
            mask, left = after, n
        if left == 1:
            break
    for clue in list(chosen):
        mask = np.ones(shape, dtype=bool)
        for other in chosen:
            if other != clue:
                mask = mask & clues(size)[other]
        if np.count_nonzero(mask) == 1:
            chosen.remove(clue)
    return chosen


@lru_cache(maxsize=256)
def make_puzzle(task: str, size: Size, players: int) -> Puzzle:
    """Returns the puzzle of a task.

    All clues together have one solution, none is redundant, and no player can answer the question
    from its own clues.
    """
    rng = task_rng(task, f"{size} {players}")
    while True:
        chosen = _enough(size, rng)
        if len(chosen) < 2 * players:
            continue
        chosen = [chosen[i] for i in rng.permutation(len(chosen))]
        hands = tuple(tuple(chosen[i::players]) for i in range(players))
        questions = [(a, v) for a in range(1, size[1]) for v in range(size[0])]
        for i in rng.permutation(len(questions)):
            about = questions[i]
            if all(max(odds(size, frozenset(hand), about)) < 1 for hand in hands):
                answer = odds(size, frozenset(chosen), about).index(1.0)
                return Puzzle(hands, about, answer)
