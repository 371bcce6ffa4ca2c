"""Scripted players of Codenames: choice of clues and of guesses."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TypeVar

import numpy as np

from agentgym.envs.communication.associations import link, topics, topics_of, vocabulary

COSTS = {"assassin": 8.0, "other": 1.5, "neutral": 0.5}
"""Cost of a wrong guess to the strategic spymaster, in units of right guesses."""
UNHEARD = 0.3
"""Bonus of a word linked to an open earlier clue of the own team, malus for the other team's."""

Clue = tuple[str, int]
T = TypeVar("T")


@lru_cache(maxsize=2048)
def _clashes(clue: str) -> frozenset[str]:
    return frozenset(word for word in vocabulary() if clue in word or word in clue)


def allowed(clue: str, covered: Iterable[str]) -> bool:
    """Returns whether the clue neither contains a covered word nor is contained in one."""
    return _clashes(clue).isdisjoint(covered)


@lru_cache(maxsize=2048)
def _barred_by(word: str) -> frozenset[str]:
    return frozenset(topic for topic in topics() if not allowed(topic, [word]))


def barred(covered: Iterable[str]) -> frozenset[str]:
    """Returns the topics that are illegal as clues."""
    return frozenset().union(*map(_barred_by, covered))


def expected_gain(links: Mapping[str, float], kinds: Mapping[str, str], count: int) -> float:
    """Returns the expected gain of `count` guesses, in order of their links with random ties.

    Args:
        links: strength of the link between the clue and each covered word.
        kinds: "own" or a key of `COSTS` for each covered word.
        count: maximum number of guesses. The first wrong one ends the turn.
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
    return gain - chance * left  # a guess without a linked word counts as wrong


def linked(words: Collection[str]) -> dict[str, dict[str, float]]:
    """Returns the legal topics with the given words that are linked to them."""
    found: dict[str, dict[str, float]] = {}
    for word in words:
        for topic, strength in topics_of(word).items():
            found.setdefault(topic, {})[word] = float(strength)
    without = barred(words)
    return {topic: links for topic, links in found.items() if topic not in without}


def strategic_clue(kinds: Mapping[str, str], rng: np.random.Generator) -> Clue:
    """Returns the clue with the highest expected gain for a guesser that follows the links."""
    values: dict[Clue, float] = {}
    for topic, links in linked(kinds).items():
        own = sum(kinds[word] == "own" for word in links)
        for count in range(1, own + 1):
            values[topic, count] = round(expected_gain(links, kinds, count), 9)
    return _best(values, rng) if values else random_clue(kinds, rng)


def literal_clue(kinds: Mapping[str, str], rng: np.random.Generator) -> Clue:
    """Returns the topic with the most own words, regardless of other words linked to it."""
    values: dict[Clue, float] = {}
    for topic, links in linked(kinds).items():
        if own := sum(kinds[word] == "own" for word in links):
            values[topic, own] = own
    return _best(values, rng) if values else random_clue(kinds, rng)


def random_clue(kinds: Mapping[str, str], rng: np.random.Generator) -> Clue:
    """Returns a random topic with a number from 1 to 3."""
    without = barred(kinds)
    names = [topic for topic in topics() if topic not in without]
    return names[int(rng.integers(len(names)))], int(rng.integers(1, 4))


def literal_guess(
    covered: Sequence[str], clue: Clue, guessed: int, rng: np.random.Generator
) -> str | None:
    """Returns the word with the strongest link to the clue, or None to pass."""
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
    """Returns the best word given all clues, or None to pass.

    Args:
        covered: the covered words.
        clue: the current clue and its number.
        guessed: number of words already found for the current clue.
        owed: earlier clues of the team with fewer words found than their number.
        warned: clues of the other team.
        rng: breaks ties.
    """

    def hints(clues: Sequence[str], word: str) -> bool:
        return any(link(clue, word) == 2 for clue in clues)

    if guessed >= clue[1]:  # the extra guess is for words missed earlier
        sure = {w: 0.0 for w in covered if hints(owed, w) and not hints(warned, w)}
        return _best(sure, rng) if sure else None
    values = {
        word: round(link(clue[0], word) + UNHEARD * (hints(owed, word) - hints(warned, word)), 9)
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
