"""A small English lexicon with word classes and tones, and the sentences made of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

NOUNS = (
    *("baker", "bird", "boat", "bridge", "cat", "child", "dog", "farmer", "forest", "garden"),
    *("horse", "house", "letter", "market", "river", "road", "sailor", "teacher", "tree", "wolf"),
)
VERBS = (
    *("carried", "chased", "crossed", "followed", "found", "heard", "left", "painted", "reached"),
    *("remembered", "saw", "visited", "watched", "wanted"),
)
PLAIN = ("big", "brown", "heavy", "quiet", "small", "tall", "white", "young")
TONES: dict[str, tuple[str, ...]] = {
    "cheerful": (
        *("bright", "charming", "delightful", "friendly", "happy", "lovely", "merry", "sunny"),
    ),
    "gloomy": ("bleak", "cold", "dark", "dreary", "lonely", "miserable", "sad", "grim"),
}
"""Tone -> its adjectives."""
CLASSES: dict[str, tuple[str, ...]] = {
    "article": ("a", "the"),
    "noun": NOUNS,
    "verb": VERBS,
    "adjective": (*PLAIN, *TONES["cheerful"], *TONES["gloomy"]),
    "preposition": ("behind", "beside", "from", "near", "under", "with"),
}
CLASS_OF = {word: name for name, words in CLASSES.items() for word in words}
VOCABULARY = tuple(sorted(CLASS_OF))
_FOLLOWS = {
    "start": ("article",),
    "article": ("adjective", "noun"),
    "adjective": ("adjective", "noun"),
    "noun": ("verb", "preposition", "end"),
    "verb": ("article",),
    "preposition": ("article",),
}
"""Word class -> the classes that may follow it."""
_WORD = re.compile(r"[a-z]+(?:'[a-z]+)?|[0-9]+")


def words_of(text: str) -> list[str]:
    """Returns the words of a text in lower case."""
    return _WORD.findall(text.lower())


def draw_sentence(rng: np.random.Generator, adjectives: Sequence[str], share: float) -> list[str]:
    """Returns the words of a random sentence: subject, verb, object and place.

    Args:
        rng: random generator.
        adjectives: the adjectives that may occur.
        share: probability of an adjective before a noun.
    """
    nouns = [NOUNS[i] for i in rng.permutation(len(NOUNS))[:3].tolist()]
    unused = [adjectives[int(i)] for i in rng.permutation(len(adjectives))]

    def phrase() -> list[str]:
        article = ("a", "the")[int(rng.integers(2))]
        described = [unused.pop()] if rng.random() < share else []
        return [article, *described, nouns.pop()]

    verb = VERBS[int(rng.integers(len(VERBS)))]
    place = CLASSES["preposition"][int(rng.integers(len(CLASSES["preposition"])))]
    return [*phrase(), verb, *phrase(), place, *phrase()]


def grammar(words: Sequence[str]) -> float:
    """Returns the share of neighbouring words that may follow each other, 0 without a verb.

    The start and the end of the sentence count as neighbours. Words that are not in the lexicon may
    follow no word. A sentence has exactly one verb and repeats no adjective, verb or noun.
    """
    classes = ["start", *(CLASS_OF.get(word, "unknown") for word in words), "end"]
    content = [word for word in words if CLASS_OF.get(word) in ("noun", "verb", "adjective")]
    if classes.count("verb") != 1 or len(set(content)) < len(content):
        return 0.0
    pairs = list(pairwise(classes))
    return sum(after in _FOLLOWS.get(before, ()) for before, after in pairs) / len(pairs)


def rouge_l(words: Sequence[str], reference: Sequence[str]) -> float:
    """Returns ROUGE-L (Lin, 2004): the F1 of the longest common subsequence of two texts."""
    row = [0] * (len(reference) + 1)
    for word in words:
        diagonal = 0
        for j, other in enumerate(reference):
            above = row[j + 1]
            row[j + 1] = diagonal + 1 if word == other else max(above, row[j])
            diagonal = above
    return 2 * row[-1] / (len(words) + len(reference)) if row[-1] else 0.0
