"""Short messages between players, and the numbers in them."""

from __future__ import annotations

import re
from functools import lru_cache

from agentgym.errors import ConfigError
from agentgym.multiagent.rules import InvalidMove
from agentgym.reading import (
    NotUnderstood,
    final_answer,
    find_clauses,
    find_numbers,
    parse_whole,
    without_end_marks,
)
from agentgym.reading.number_words import SMALL, TENS
from agentgym.utils.action_parsing import LONGEST, command, without_label
from agentgym.utils.marks import undressed

MAX_MESSAGE = 280
_NUMERIC = re.compile(rf"\d|(?<!\w)(?:{'|'.join((*SMALL, *TENS))})", re.IGNORECASE)
_OFFERS = re.compile(
    r"\s*(?:how about|what about|what if|let's|(?:shall|should|could|can) we"
    r"|(?:would|will|could|can) you)\b",
    re.IGNORECASE,
)
"""The beginning of a question that is a proposal."""
_LETTER = re.compile(r"[^\W\d_]")
_FOREIGN_DIGIT = re.compile("(?![0-9\uff10-\uff19])\\d")


def refuse_messages(game: str, messages: int) -> None:
    """Refuses the exact evaluation of a game with messages.

    Args:
        game: name of the game.
        messages: number of messages before a turn.

    Raises:
        ConfigError: if there are any.
    """
    if messages:
        raise ConfigError(
            f"Exact evaluation of {game} enumerates all actions, which is impossible for messages: "
            f"set messages=0, got {messages}."
        )


def clip(message: str, limit: int = MAX_MESSAGE) -> str:
    """Returns the message as one short line, so that it cannot imitate other observation lines."""
    return " ".join(spoken(message[: 10 * limit]).split())[:limit]


def spoken(message: str) -> str:
    """Returns a message without a label "Action:" before it and text behind an end mark."""
    return without_label(without_end_marks(message))


def proposal(messages: list[str]) -> int | None:
    """Returns the smallest whole number that the messages propose, or None.

    Numbers that are denied ("not 12"), quoted, or about a condition or the past do not count. A
    message with a negative number, a fraction or an amount with a unit proposes nothing.
    """
    named = [number for message in messages for number in _proposed(message)]
    return min(named, default=None)


@lru_cache(maxsize=1024)
def _proposed(message: str) -> tuple[int, ...]:
    """Returns the whole numbers that a message proposes."""
    if not _NUMERIC.search(message):
        return ()
    found: list[int] = []
    for clause in find_clauses(message):
        offers = clause.question and _OFFERS.match(clause.text)
        if clause.asserted or (offers and not clause.negated and not clause.quoted):
            for number in find_numbers(clause.text):
                if number.unit or number.value.denominator != 1 or not 0 <= number.value < 10**6:
                    return ()
                found.append(int(number.value))
    return tuple(found)


def amount(action: str, most: int) -> str:
    """Returns an amount in canonical form.

    Raises:
        InvalidMove: if the text is not a whole number from 0 to `most`, in digits.
    """
    if action.isascii() and action.isdigit() and len(action) <= 6 and int(action) <= most:
        return str(int(action))
    try:
        text = final_answer(undressed(command(action)))
        digits = not _LETTER.search(text) and not _FOREIGN_DIGIT.search(action[:LONGEST])
        number = parse_whole(text, most) if digits else None
    except NotUnderstood:
        number = None
    if number is not None:
        return str(number)
    raise InvalidMove(f"Invalid amount {action[:40]!r}. Expected a whole number from 0 to {most}.")


def heard(talk: list[list[str]], names: list[str]) -> list[str]:
    """Returns one line per message with its sender, in order. Empty messages are omitted."""
    return [
        f"{'You' if name == 'you' else name} said: {words}"
        for turn in talk
        for name, words in zip(names, turn, strict=True)
        if words
    ]
