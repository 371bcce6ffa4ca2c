"""Messages of Adversarial Taboo, and the guesses among them."""

from __future__ import annotations

import re

from agentgym.envs.communication.taboo_words import named
from agentgym.multiagent.rules import InvalidMove
from agentgym.reading import find_clauses, normalized
from agentgym.utils.action_parsing import command

MOST = 500
"""Maximum number of characters of a message."""
ROLES = ("attacker", "defender")
GUESS = "I know the word! It is {}!"
GUESS_START = GUESS.partition("{")[0]
HOW_TO_GUESS = f"To guess, say only: {GUESS.format('...')} with one word in place of the dots."
_MARKS = "\"'`*_"
_LABEL = re.compile(
    rf"^[ \t>#{_MARKS}-]{{0,9}}(attacker|defender|player[_ ]?[01])[ \t{_MARKS}]{{0,9}}"
    rf"(?:\([^()\n]{{0,20}}\)[ \t{_MARKS}]{{0,9}})?:[{_MARKS}]{{0,3}}",
    re.IGNORECASE | re.MULTILINE,
)
_WORD = r"(?:secret |target |hidden |taboo |right )?word"
_KNOW = re.compile(rf"\bI(?: \w+| think I)? know (?:the|your) {_WORD}\b", re.I)
_WHICH = re.compile(
    rf"[\s!.,:;{_MARKS}-]{{0,9}}(?:and )?(?:it is|it's|it must be|it has to be|the word is)\s?:?\s?"
    rf"(?:an? |the )?[{_MARKS}]{{0,3}}((?:an? |the )?)([^\W\d_]+(?:-[^\W\d_]+)*)[{_MARKS}]{{0,3}}"
    rf"(?:[.!]+[{_MARKS}]{{0,3}}\s*(.*)|$)",
    re.IGNORECASE,
)
_END = re.compile(r"[.!?:;,]")
_UNSURE = re.compile(
    r"\b(?:or|no|nope|not|wait|maybe|perhaps|actually|sorry|instead|rather|else|mean|meant|"
    r"correction|change|unless|if|word|it is|it's|it must|could be|might be)\b|\?",
    re.IGNORECASE,
)
_ALMOST = re.compile(
    rf"\b(?:(?:the|your) {_WORD} (?:is|was|must be|has to be|may be|might be|could be)"
    rf"|(?:is|was) (?:the|your) {_WORD}|(?:my|final) guess(?: is| would be|:)"
    r"|my final (?:guess|answer)(?: is|:)|I guess:"
    rf"|I (?:now )?(?:know|have|got|found)(?: it| what (?:it|(?:the|your) {_WORD}) is)?"
    r"\s?[!.,:;-]+\s?(?:it is|it's|it must be))"
    rf"\s?:?\s?(?:an? |the )?[{_MARKS}]{{0,3}}[^\W\d_]+(?:-[^\W\d_]+)*[{_MARKS}]{{0,3}}"
    r"(?:[.!?,;]|$)",
    re.IGNORECASE,
)  # fmt: skip

_SUPPOSED = re.compile(
    rf"\bI(?: would|'d)? guess,?(?: that)?(?: it is| it's)?\s(?:an? |the )?[{_MARKS}]{{0,3}}"
    rf"([^\W\d_]+(?:-[^\W\d_]+)*)[{_MARKS}]{{0,3}}(?:[.!?,;]|$)",
    re.IGNORECASE,
)
"""A guess if it names a thing: "I guess so." guesses nothing."""


def spoken(action: str, role: str) -> str:
    """Returns the message of an action on one line, without labels and marks around it.

    Args:
        action: the answer of a player.
        role: the role of the player, one of `ROLES`.

    Raises:
        InvalidMove: if the message is empty, too long, or has lines of the other player.
    """
    text = normalized(command(action))
    labels = list(_LABEL.finditer(text))
    own = (role, *(f"player{between}{ROLES.index(role)}" for between in ("_", " ", "")))
    if labels:
        before = text[: labels[0].start()].strip()
        if len(labels) > 1 or before or labels[0][1].lower() not in own:
            raise InvalidMove(
                f"Speak for yourself only, in one message: you are the {role}. Leave out names "
                "of players before lines."
            )
        text = text[labels[0].end() :]
    text = _unmarked(" ".join("".join(c if c.isprintable() else " " for c in text).split()))
    if not any(c.isalnum() for c in text):
        raise InvalidMove("Your message has no words. Say something, for example: Tell me more.")
    if len(text) > MOST:
        raise InvalidMove(
            f"Your message has {len(text)} characters. Say at most {MOST} characters."
        )
    return text


def _unmarked(text: str) -> str:
    """Returns a text without quotation marks, asterisks or backticks around all of it."""
    for mark in ('"', "'", "`", "**", "*", "__", "_") * 2:
        inner = text[len(mark) : -len(mark)]
        if text == f"{mark}{inner}{mark}" and mark not in inner:
            text = inner.strip()
    return text


def guess(text: str) -> str | None:
    """Returns the word that a message of the defender guesses, or None if it guesses nothing.

    A word with hyphens is returned without them, so that "kite-lamp" guesses neither of both.

    Args:
        text: a message, as of `spoken`.

    Raises:
        InvalidMove: if it is a guess of another form, or it is not clear which word it guesses.
    """
    known = list(_KNOW.finditer(text))
    clauses = find_clauses(text) if known else []
    for match in known:
        at = match.start()
        clause = next((c for c in clauses if c.start <= at < c.stop), None)
        denied = clause is not None and (clause.negated or clause.question or clause.conditional)
        if denied and not text.startswith(GUESS_START):
            continue  # "I do not know the word", "Do you think that I know the word?"
        found = _WHICH.match(text, match.end())
        before = _END.split(text[:at])[-1].split()
        clear = clause is not None and not clause.quoted and len(before) <= 3
        if found is None or not clear or _UNSURE.search(found[3] or ""):
            raise InvalidMove(f"It is not clear which word you guess. {HOW_TO_GUESS}")
        return found[2].lower().replace("-", "")
    supposed = any(named(each[1]) for each in _SUPPOSED.finditer(text))
    if supposed or _ALMOST.search(text):
        raise InvalidMove(f"Your message reads as a guess of another form. {HOW_TO_GUESS}")
    return None
