"""`JoinedConversation`: prompts of tokenizers that mark the start of words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from agentgym.trainers.policy.joined_text import TextJoiner
from agentgym.trainers.rollout.context import Conversation

if TYPE_CHECKING:
    from agentgym.trainers.rollout.context import Context

Tokens = NDArray[np.int32]


class JoinedConversation(Conversation):
    """The prompt context of one episode, with observations joined to the texts around them.

    Token ids are those of `apply_chat_template(tokenize=True)`, and a prompt is still a
    continuation of the one before. An observation with special tokens is encoded alone as plain
    text, and so is one that was cut.

    Args:
        context: the prompt builder.
        pieces: tokens before the first observation, after each, and between action and next.
        joiner: encodes observations.
        heads: tokens of the first and the last of these pieces up to their last special tokens.
    """

    def __init__(
        self,
        context: Context,
        pieces: tuple[Tokens, Tokens, Tokens],
        joiner: TextJoiner,
        heads: tuple[Tokens, Tokens],
    ):
        super().__init__(context, *pieces)
        self._joiner, self._heads = joiner, heads
        self._texts: list[str | None] = []
        self._joined: dict[tuple[str, bool], Tokens | None] = {}

    def observe(self, text: str) -> None:
        """Adds an observation."""
        super().observe(text)
        self._texts.append(self._context.line(text))

    def _cut(self, prompt: Tokens, limit: int, first: int, action: int) -> Tokens:
        self._texts[-1] = None
        return super()._cut(self._render(first), limit, first, action)

    def _piece(self, turn: int, first: int, omitted: bool) -> list[Tokens]:
        text, later = self._context.line("...") if omitted else self._texts[turn], turn > first
        joined = None if text is None else self._join(text, later)
        if joined is None:
            return super()._piece(turn, first, omitted)
        head = self._heads[later]
        return [self._link(self._actions[turn - 1], head) if later else head, joined]

    def _join(self, text: str, later: bool) -> Tokens | None:
        if (text, later) not in self._joined:
            before = self._joiner.between if later else self._joiner.opening
            self._joined[text, later] = self._joiner.tokens(before, text)
        return self._joined[text, later]
