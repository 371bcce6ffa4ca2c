"""Prompts and delimiters of actions for environments whose actions are tokens.

`TokenView` needs a `PromptContext` and an `ActionFormat`. `PlainContext` and `PlainFormat` are the
defaults, and a trained policy has its own.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from agentgym.errors import ConfigError
from agentgym.tokens.tokenizer import Tokenizer, encode


class Conversation(Protocol):
    """The prompts of one episode. That of the trainer's `Context` satisfies it."""

    def observe(self, text: str) -> None:
        """Adds an observation."""

    def act(self, tokens: Sequence[int]) -> None:
        """Adds the tokens of the action that followed."""

    def prompt(self, room: int) -> Sequence[int] | np.ndarray | None:
        """Returns the prompt of the next action, with `room` tokens free. None: it is too long."""


class PromptContext(Protocol):
    """Makes the conversation of an episode."""

    def begin(self, instructions: str) -> Conversation:
        """Returns the empty conversation of a new episode."""
        ...


class ActionFormat(Protocol):
    """The delimiters of actions. Those of a trained policy satisfy it."""

    @property
    def end_token(self) -> int:
        """The token that ends admissible actions."""
        ...

    @property
    def end_tokens(self) -> Set[int]:
        """The tokens that end an action."""
        ...

    @property
    def stop(self) -> Sequence[str]:
        """Strings that end an action and are no part of it."""
        ...

    @property
    def prefix(self) -> str:
        """Text before an action that is part of its tokens."""
        ...


@dataclass(frozen=True)
class PlainFormat:
    """Actions that end with one token."""

    end_token: int
    stop: tuple[str, ...] = ()
    prefix: str = ""

    @property
    def end_tokens(self) -> Set[int]:
        """The end token."""
        return {self.end_token}


@dataclass(frozen=True)
class PlainContext:
    """Instructions, observations and actions as plain text, each action after "> ".

    If a prompt is too long, the oldest turns are left out. An observation that does not fit is cut
    at its end.

    Attributes:
        tokenizer: the tokenizer.
        format: the delimiters of actions.
        max_tokens: maximum length of prompt plus action in tokens.
    """

    tokenizer: Tokenizer
    format: ActionFormat
    max_tokens: int

    def begin(self, instructions: str) -> PlainConversation:
        """Returns the empty conversation of a new episode."""
        return PlainConversation(self, instructions)


class PlainConversation:
    """The conversation of one episode in a `PlainContext`."""

    def __init__(self, context: PlainContext, instructions: str):
        self._context = context
        self._opening = self._encode(f"{instructions}\n\n" if instructions else "")
        self._after, self._between = self._encode("\n> "), self._encode("\n")
        self._observations: list[list[int]] = []
        self._actions: list[list[int]] = []

    def _encode(self, text: str) -> list[int]:
        return encode(self._context.tokenizer, text)

    def observe(self, text: str) -> None:
        """Adds an observation."""
        self._observations.append(self._encode(text))

    def act(self, tokens: Sequence[int]) -> None:
        """Adds the tokens of the action that followed, and the end token if it has none."""
        ends = self._context.format
        ended = bool(tokens) and tokens[-1] in ends.end_tokens
        self._actions.append([*tokens] if ended else [*tokens, ends.end_token])

    def prompt(self, room: int) -> list[int]:
        """Returns the prompt of the next action, with `room` tokens free for it.

        If a later turn needs more room than there is, the observation gets half of it.

        Raises:
            ConfigError: in the first turn, if instructions and action do not fit.
        """
        last = self._observations[-1]
        free = self._context.max_tokens - len(self._opening) - len(self._after)
        left = free - room if room <= free else free - free // 2
        if room > free and len(self._observations) == 1:
            raise ConfigError(
                f"max_tokens = {self._context.max_tokens} leaves no room for the instructions, "
                f"{len(self._opening)} tokens, and an action of {room}. Raise max_tokens, lower "
                "max_action_tokens, or leave the instructions out (instructions=False)."
            )
        last = self._observations[-1] = last[:left]
        pieces, left = [], left - len(last)
        for observation, action in zip(
            self._observations[-2::-1], self._actions[::-1], strict=True
        ):
            piece = [*observation, *self._after, *action, *self._between]
            left -= len(piece)
            if left < 0:
                break
            pieces.append(piece)
        return [*self._opening, *(t for piece in pieces[::-1] for t in piece), *last, *self._after]
