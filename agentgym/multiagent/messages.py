"""Short messages between players, and the numbers that are named in them."""

from __future__ import annotations

import re

from agentgym.multiagent.game import InvalidMove
from agentgym.utils.action_parsing import plain

MAX_MESSAGE = 280
NUMBER = re.compile(r"(?<!\w)\d{1,6}(?!\w)")  # that of a player's name is none


def clip(message: str, limit: int = MAX_MESSAGE) -> str:
    """Returns the message as one short line, so that it cannot pass for anything else."""
    return " ".join(message[: 10 * limit].split())[:limit]


def proposal(messages: list[str]) -> int | None:
    """Returns the smallest number that anybody names, None if nobody names one."""
    named = [int(number) for message in messages for number in NUMBER.findall(message)]
    return min(named, default=None)


def amount(said: str, most: int) -> str:
    """Returns the amount that was said.

    Raises:
        InvalidMove: if it is no whole number from 0 to `most`.
    """
    words = plain(said)
    if words.isascii() and words.isdigit() and len(words) <= 6 and int(words) <= most:
        return str(int(words))
    raise InvalidMove(f"{said[:40]!r} is no amount: say only a whole number from 0 to {most}.")


def heard(talk: list[list[str]], names: list[str]) -> list[str]:
    """Returns the lines that tell who said what, in the order of speaking; "" is silence."""
    return [
        f"{'You' if name == 'you' else name} said: {words}"
        for said in talk
        for name, words in zip(names, said, strict=True)
        if words
    ]
