"""Generated prompts: sentences with given words, sentences in a tone, summaries of pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from agentgym.envs.generation.lexicon import (
    CLASS_OF,
    NOUNS,
    PLAIN,
    TONES,
    VOCABULARY,
    draw_sentence,
    grammar,
    rouge_l,
    words_of,
)
from agentgym.tasks import draw_level, task_rng

KINDS = ("words", "tone", "summary")
TONE_WORDS = 2
"""Number of adjectives that make a tone."""


@dataclass(frozen=True)
class Prompt:
    """A request for a text.

    Attributes:
        kind: one of `KINDS`.
        text: the request.
        words: words that the text must contain.
        tone: the tone of the text, a key of `TONES`, or "".
        limit: maximum number of words.
        reference: a text with the score 1.
    """

    kind: str
    text: str
    words: tuple[str, ...]
    tone: str
    limit: int
    reference: str

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """The words that are actions if texts are generated word by word."""
        if self.kind != "summary":
            return VOCABULARY
        return tuple(sorted({*words_of(self.text), *words_of(self.reference)}))


def score(prompt: Prompt, text: str) -> float:
    """Returns the default reward of a text, in [0, 1]. A text that is too long has 0."""
    words = words_of(text)
    if not 0 < len(words) <= prompt.limit:
        return 0.0
    if prompt.kind == "summary":
        return rouge_l(words, words_of(prompt.reference))
    named = sum(word in words for word in prompt.words) / len(prompt.words)
    return named * tone_share(words, prompt.tone) * grammar(words)


def tone_share(words: Sequence[str], tone: str) -> float:
    """Returns the share of `TONE_WORDS` adjectives of a tone, 0 with one of another tone."""
    if not tone:
        return 1.0
    if any(word in other for name, other in TONES.items() if name != tone for word in words):
        return 0.0
    return min(1.0, len({*words} & {*TONES[tone]}) / TONE_WORDS)


@lru_cache(maxsize=4096)
def prompt_of(task: str, kind: str) -> Prompt:
    """Returns the prompt of a task. No prompt is in both splits.

    Args:
        task: name of the task.
        kind: one of `KINDS`, or "mixed".
    """
    rng = task_rng(task, "text_generation")
    kind = _one(rng, KINDS) if kind == "mixed" else kind
    return draw_level(task, lambda: _WRITERS[kind](rng))


def _one(rng: np.random.Generator, options: Sequence[Any]) -> Any:
    return options[int(rng.integers(len(options)))]


def _with_words(rng: np.random.Generator) -> Prompt:
    sentence = draw_sentence(rng, PLAIN, 0.5)
    content = [word for word in sentence if CLASS_OF[word] in ("noun", "verb", "adjective")]
    size = int(rng.integers(3, 5))
    chosen = tuple(content[i] for i in rng.permutation(len(content))[:size].tolist())
    text = f"Write one sentence with all of these words: {', '.join(chosen)}."
    return Prompt("words", text, chosen, "", len(sentence) + 2, " ".join(sentence))


def _with_tone(rng: np.random.Generator) -> Prompt:
    tone = _one(rng, list(TONES))
    sentence = draw_sentence(rng, TONES[tone], 1.0)
    nouns = [word for word in sentence if word in NOUNS]
    chosen = tuple(nouns[i] for i in rng.permutation(len(nouns))[:2].tolist())
    text = (
        f"Write one {tone} sentence about a {chosen[0]} and a {chosen[1]}, with at least "
        f"{TONE_WORDS} {tone} adjectives."
    )
    return Prompt("tone", text, chosen, tone, len(sentence) + 2, " ".join(sentence))


_NAMES = (("Vel", "Bran", "Tor", "Lun", "Mar", "Kes"), ("mora", "dale", "wick", "stad", "ford"))
_KINDS = ("village", "town", "city", "port")
_REGIONS = ("north", "south", "east", "west")
_PRODUCTS = ("cheese", "lamps", "carpets", "clocks", "apples", "glass", "violins", "pepper")
_FILLERS = (
    "The bus takes an hour on weekdays.",
    "Last winter the roof of the school was repaired.",
    "The mayor likes to ride a bicycle.",
    "It rains on most days in spring.",
    "There are two hotels and a small museum.",
    "A new bridge will open next year.",
    "The library closes at six in the evening.",
    "Many streets have the names of birds.",
)


def _summary(rng: np.random.Generator) -> Prompt:
    name = "".join(_one(rng, part) for part in _NAMES)
    kind, region, product = _one(rng, _KINDS), _one(rng, _REGIONS), _one(rng, _PRODUCTS)
    facts = [
        f"{name} has been a {kind} for three hundred years.",
        f"You find it in the {region} of the country.",
        f"People come from far away for the {product} that are made there.",
    ]
    fillers = [_FILLERS[i] for i in rng.permutation(len(_FILLERS))[:5].tolist()]
    sentences = [facts[0], *fillers]
    for fact in facts[1:]:
        sentences.insert(int(rng.integers(1, len(sentences) + 1)), fact)
    reference = f"{name} is a {kind} in the {region}, known for {product}"
    limit = len(words_of(reference)) + 4
    text = (
        f"Summarise the page in one sentence: the kind of place, where it is, and what it is known "
        f"for.\nPage: {' '.join(sentences)}"
    )
    return Prompt("summary", text, (), "", limit, reference)


_WRITERS = {"words": _with_words, "tone": _with_tone, "summary": _summary}
