"""Scripted players of Adversarial Taboo."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from agentgym.envs.communication.taboo_talk import GUESS
from agentgym.envs.communication.taboo_words import (
    CLUES,
    fitting,
    named,
    notes,
    says,
    with_article,
    words,
)

QUESTIONS = (
    "Name something that {} and that {}.",
    "Can you think of something that {} and that {}?",
    "What do you know that {} and that {}?",
)
NAMES = ("Maybe {}.", "I think of {}.", "What about {}?")
EVASIONS = ("Tell me more.", "I am not sure yet.", "Let us talk about something else.")


def attack(level: str, word: str, said: Sequence[str], rng: np.random.Generator) -> str:
    """Returns the next message of a scripted attacker.

    Args:
        level: "simple", "sly" or "random".
        word: the target word.
        said: all messages so far, from the attacker's first one on.
        rng: source of random choices.
    """
    asked, heard = said[::2], said[1::2]
    if level == "random":
        known = [clue for clue in CLUES.values() if not says(clue, word)]
        one, two = rng.choice(len(known), 2, replace=False)
        return _ask(known[one], known[two], rng)
    honest = asked if level == "simple" else asked[1:]
    if level == "simple" or any(map(named, heard)):
        return _about(word, len(honest), rng)
    # The defender has named nothing: it is led to another word, which it may guess.
    others = [other for other in words() if word not in fitting(_pair(other)) and other != word]
    others = [other for other in others if not says(_pair(other), word)]
    led = [other for other in others if all(other in fitting(text) for text in asked)]
    choices = led or others
    return _about(choices[int(rng.integers(len(choices)))], len(asked), rng, without=word)


def defend(level: str, said: Sequence[str], rng: np.random.Generator) -> str:
    """Returns the next message of a scripted defender, which does not know the word.

    Args:
        level: "simple", "sly" or "random".
        said: all messages so far. The last one is the attacker's.
        rng: source of random choices.
    """
    *earlier, last = [fitting(text) for text in said[::2]]
    if level == "random":
        word = words()[int(rng.integers(len(words())))]
        form = int(rng.integers(4))
        return (_name(word, rng), _name(word, rng), _pick(EVASIONS, rng), GUESS.format(word))[form]
    if level == "simple":
        new = [word for word in words() if word in last and not any(says(t, word) for t in said)]
        return _name(_pick(new, rng), rng) if new else _pick(EVASIONS, rng)
    if not earlier:
        # A word that does not fit is safe if the attacker is honest, and hides distrust.
        return _name(_pick([word for word in words() if word not in last], rng), rng)
    left = last
    for fit in reversed(earlier):
        left = (left & fit) or left
    if len(left) == 1:
        return GUESS.format(*left)
    return _pick(EVASIONS, rng)


def _pair(word: str) -> str:
    """Returns a question with the two most telling notes about a word."""
    return QUESTIONS[0].format(*notes(word)[:2])


def _about(word: str, number: int, rng: np.random.Generator, without: str = "") -> str:
    """Returns a question about a word: of its notes, the first and another one each time."""
    known = [clue for clue in notes(word) if not (without and says(clue, without))]
    return _ask(known[0], known[1 + number % (len(known) - 1)], rng)


def _ask(one: str, two: str, rng: np.random.Generator) -> str:
    return _pick(QUESTIONS, rng).format(one, two)


def _name(word: str, rng: np.random.Generator) -> str:
    return _pick(NAMES, rng).format(with_article(word))


def _pick(options: Sequence[str], rng: np.random.Generator) -> str:
    return options[int(rng.integers(len(options)))]
