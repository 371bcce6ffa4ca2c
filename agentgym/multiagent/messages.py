"""Short messages between players, and the numbers in them."""

from __future__ import annotations

import re

from agentgym.errors import ConfigError
from agentgym.multiagent.rules import InvalidMove
from agentgym.utils.action_parsing import plain

MAX_MESSAGE = 280
NUMBER = re.compile(r"(?<!\w)\d{1,6}(?!\w)")  # excludes digits of player names


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
    return " ".join(message[: 10 * limit].split())[:limit]


def proposal(messages: list[str]) -> int | None:
    """Returns the smallest number in the messages, or None."""
    named = [int(number) for message in messages for number in NUMBER.findall(message)]
    return min(named, default=None)


def amount(action: str, most: int) -> str:
    """Returns an amount in canonical form.

    Raises:
        InvalidMove: if the text is not a whole number from 0 to `most`.
    """
    words = plain(action)
    if words.isascii() and words.isdigit() and len(words) <= 6 and int(words) <= most:
        return str(int(words))
    raise InvalidMove(f"Invalid amount {action[:40]!r}. Expected a whole number from 0 to {most}.")


def heard(talk: list[list[str]], names: list[str]) -> list[str]:
    """Returns one line per message with its sender, in order. Empty messages are omitted."""
    return [
        f"{'You' if name == 'you' else name} said: {words}"
        for turn in talk
        for name, words in zip(names, turn, strict=True)
        if words
    ]
