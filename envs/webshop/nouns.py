"""Which words of a product title count as nouns: without a model, or with spaCy's."""

from __future__ import annotations

from collections.abc import Callable

NounTagger = Callable[[str], list[str]]
"""Text -> its nouns, lower-cased, in order, with repeats."""


def alphabetic_nouns(text: str) -> list[str]:
    """Returns the alphabetic tokens that are no stop words: a deterministic stand-in for a tagger."""
    raise NotImplementedError


def spacy_nouns(model: str = "en_core_web_lg") -> NounTagger:
    """Returns the original's tagger: tokens that spaCy tags NOUN or PROPN.

    Raises:
        MissingExtraError: spaCy or the model is not installed.
    """
    raise NotImplementedError
