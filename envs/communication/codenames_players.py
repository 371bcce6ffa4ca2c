"""Scripted players of Codenames: which clue to give, which word to guess."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TypeVar

import numpy as np

from agentgym.envs.communication.associations import link, topics, topics_of, vocabulary

COSTS = {"assassin": 8.0, "other": 1.5, "neutral": 0.5}
"""What the strategic spymaster reckons a wrong guess costs, in right ones."""
UNHEARD = 0.3
"""What a word left from an earlier clue of one's team gains; one of the other team's loses it."""

Clue = tuple[str, int]
T = TypeVar("T")


@lru_cache(maxsize=2048)
def _clashes(clue: str) -> frozenset[str]:
    return frozenset(word for word in vocabulary() if clue in word or word in clue)


def allowed(clue: str, covered: Iterable[str]) -> bool:
    """Returns whether the clue is no covered word, no part of one and contains none."""
    return _clashes(clue).isdisjoint(covered)


@lru_cache(maxsize=2048)
def _barred_by(word: str) -> frozenset[str]:
    return frozenset(topic for topic in topics() if not allowed(topic, [word]))


def barred(covered: Iterable[str]) -> frozenset[str]:
    """Returns the topics that are not allowed as clues."""
    return frozenset().union(*map(_barred_by, covered))


def expected_gain(links: Mapping[str, float], kinds: Mapping[str, str], count: int) -> float:
    """Returns what `count` guesses are worth: the words most linked come first, equals at random.

    Args:
        links: how strongly the clue is linked to each covered word.
        kinds: "own" or a key of `COSTS` for each covered word.
        count: guesses, which stop at the first wrong one.
    """
    gain, chance, left = 0.0, 1.0, count
    for strength in sorted({x for x in links.values() if x > 0}, reverse=True):
        group = [kinds[word] for word, x in links.items() if x == strength]
        own, total = group.count("own"), len(group)
        cost = sum(COSTS[kind] for kind in group if kind != "own")
        for drawn in range(min(left, total)):
            rest = total - drawn
            gain += chance * ((own - drawn) - cost) / rest
            chance *= (own - drawn) / rest
            if chance == 0:
                return gain
        left -= min(left, total)
    return gain - chance * left  # who finds no word for a guess guesses wrong


def linked(words: Collection[str]) -> dict[str, dict[str, float]]:
    """Returns the topics that may be clues, with those of the words that are linked to them."""
    found: dict[str, dict[str, float]] = {}
    for word in words:
        for topic, strength in topics_of(word).items():
            found.setdefault(topic, {})[word] = float(strength)
    without = barred(words)
    return {topic: links for topic, links in found.items() if topic not in without}


def strategic_clue(kinds: Mapping[str, str], rng: np.random.Generator) -> Clue:
    """Returns the clue that is worth most if the guesser goes by the links."""
    values: dict[Clue, float] = {}
    for topic, links in linked(kinds).items():
        own = sum(kinds[word] == "own" for word in links)
        for count in range(1, own + 1):
            values[topic, count] = round(expected_gain(links, kinds, count), 9)
    return _best(values, rng) if values else random_clue(kinds, rng)


def literal_clue(kinds: Mapping[str, str], rng: np.random.Generator) -> Clue:
    """Returns the topic of most of one's words, whatever else is linked to it."""
    values: dict[Clue, float] = {}
    for topic, links in linked(kinds).items():
        if own := sum(kinds[word] == "own" for word in links):
            values[topic, own] = own
    return _best(values, rng) if values else random_clue(kinds, rng)


def random_clue(kinds: Mapping[str, str], rng: np.random.Generator) -> Clue:
    """Returns any topic, for one to three words."""
    without = barred(kinds)
    names = [topic for topic in topics() if topic not in without]
    return names[int(rng.integers(len(names)))], int(rng.integers(1, 4))


def literal_guess(
    covered: Sequence[str], clue: Clue, guessed: int, rng: np.random.Generator
) -> str | None:
    """Returns the word most linked to the clue; None when the number is reached or none is."""
    values = {word: link(clue[0], word) for word in covered}
    if guessed >= clue[1] or not any(values.values()):
        return None
    return _best(values, rng)


def strategic_guess(
    covered: Sequence[str],
    clue: Clue,
    guessed: int,
    owed: Sequence[str],
    warned: Sequence[str],
    rng: np.random.Generator,
) -> str | None:
    """Returns the word that all clues speak for; None to stop.

    Args:
        covered: the words still covered.
        clue: the present clue and its number.
        guessed: how many were guessed right for it.
        owed: earlier clues of one's team that have words left.
        warned: the other team's clues.
        rng: decides among equals.
    """

    def speaks(clues: Sequence[str], word: str) -> bool:
        return any(link(clue, word) == 2 for clue in clues)

    if guessed >= clue[1]:  # the one more guess is for what was missed before
        sure = {w: 0.0 for w in covered if speaks(owed, w) and not speaks(warned, w)}
        return _best(sure, rng) if sure else None
    values = {
        word: round(link(clue[0], word) + UNHEARD * (speaks(owed, word) - speaks(warned, word)), 9)
        for word in covered
        if link(clue[0], word)
    }
    return _best(values, rng) if values else None


def _best(values: Mapping[T, float], rng: np.random.Generator) -> T:
    most = max(values.values())
    best = [key for key, value in values.items() if value == most]
    return best[int(rng.integers(len(best)))]


Speaker = Callable[[Mapping[str, str], np.random.Generator], Clue]
SPYMASTERS: dict[str, Speaker] = {"literal": literal_clue, "strategic": strategic_clue}
