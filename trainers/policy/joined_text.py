"""Texts around observations, for tokenizers that mark the start of words (SentencePiece).

Such a tokenizer writes a mark before a text that is encoded alone, so an observation between the
texts of a chat template would get a token more than in the whole conversation. An observation is
therefore encoded together with the text from the last special token before it up to the action.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agentgym.trainers.policy.chat_template import Pieces
from agentgym.utils.printable import encodable

Tokens = NDArray[np.int32]
MARKS = ("▁", "Ġ")
"""Marks of the start of a word in the vocabularies of SentencePiece and of byte-level BPE."""


class Before(NamedTuple):
    """The text before an observation.

    Attributes:
        head: its beginning, up to the last special token.
        special: this token, or the one that comes before the text. "" at the start of a prompt.
        lead: the rest.
    """

    head: str
    special: str
    lead: str


class TextJoiner:
    """Encodes observations together with the texts around them.

    Args:
        tokenizer: a `transformers` tokenizer.
        pieces: the texts.
        start: the special token with which prompts start before the opening, or "".
        end: the token or line break that ends actions before `between`, or "".
    """

    def __init__(self, tokenizer: Any, pieces: Pieces, start: str, end: str):
        self._tokenizer = tokenizer
        added = [str(token) for token in tokenizer.added_tokens_decoder.values()]
        longest = sorted((token for token in added if not token.isspace()), key=len, reverse=True)
        self._special = re.compile("|".join(map(re.escape, longest)) or r"(?!)")
        self.opening = self._divided(pieces.opening, start)
        self.between = self._divided(pieces.between, end)
        self._after = pieces.after

    def _divided(self, text: str, before: str) -> Before:
        found = list(self._special.finditer(text))
        if not found:
            return Before("", before, text)
        end = found[-1].end()
        return Before(text[:end], found[-1][0], text[end:])

    def tokens(self, before: Before, observation: str) -> Tokens | None:
        """Returns the tokens from the lead of an observation up to the action.

        Args:
            before: `opening` or `between`.
            observation: the text of the observation.

        Returns:
            [n] token ids, or None if they cannot be told: the texts contain special tokens, which
            must not end a turn, or their beginning is merged with what is before.
        """
        text = encodable(before.lead + observation)
        if self._special.search(text):
            return None
        head = self._ids(before.special)
        whole = self._ids(before.special + text + self._after)
        if whole[: len(head)] != head:
            return None
        return np.array(whole[len(head) :], np.int32)

    def _ids(self, text: str) -> list[int]:
        return self._tokenizer(text, add_special_tokens=False)["input_ids"] if text else []


def marks_words(tokenizer: Any) -> bool:
    """Returns whether a tokenizer marks the start of a word in a text that is encoded alone."""
    ids = tokenizer("a", add_special_tokens=False)["input_ids"]
    return str((tokenizer.convert_ids_to_tokens(ids) or [""])[0]).startswith(MARKS)
