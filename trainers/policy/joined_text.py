"""Texts around observations, for tokenizers that mark the start of words (SentencePiece).

Such a tokenizer writes a mark before a text that is encoded alone, so an observation between the
texts of a chat template would get a token more than in the whole conversation. An observation is
therefore encoded together with the texts between the special tokens before and after it.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np

from agentgym.trainers.data.trajectory import Tokens
from agentgym.trainers.policy.chat_template import Pieces
from agentgym.trainers.policy.plain_text import PlainText
from agentgym.utils.printable import encodable
from agentgym.utils.recent import Recent, text_size

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
        plain: encodes observations alone, and knows the control tokens.
        pieces: the texts.
        start: the special token with which prompts start before the opening, or "".
        end: the token or line break that ends actions before `between`, or "".
        memo: keeps tokens, in bytes. Joiners of one tokenizer may share it.
    """

    def __init__(
        self,
        tokenizer: Any,
        plain: PlainText,
        pieces: Pieces,
        start: str,
        end: str,
        memo: Recent[tuple[Tokens | None]],
    ):
        self._tokenizer, self._plain, self._memo = tokenizer, plain, memo
        added = [str(token) for token in tokenizer.added_tokens_decoder.values()]
        longest = sorted((token for token in added if not token.isspace()), key=len, reverse=True)
        self._special = re.compile("|".join(map(re.escape, longest)) or r"(?!)")
        self.opening = self._divided(pieces.opening, start)
        self.between = self._divided(pieces.between, end)
        first = self._special.search(pieces.after)
        stop = first.start() if first else len(pieces.after)
        self._trail, self._stop = pieces.after[:stop], first[0] if first else ""
        self._after = self._ids(pieces.after[stop:])

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
            [n] token ids, or None if they cannot be told: there are control tokens in the
            observation, or the texts are merged with the special tokens around them.
        """
        texts = before.special, before.lead, observation, self._trail, self._stop
        found = self._memo.get(texts)
        if found is None:
            found = (self._joined(*texts),)
            size = 0 if found[0] is None else found[0].nbytes
            self._memo.put(texts, found, text_size(texts, 0) + size)
        return found[0]

    def _joined(
        self, special: str, lead: str, observation: str, trail: str, stop: str
    ) -> Tokens | None:
        text = encodable(lead + observation + trail)
        head, tail = self._ids(special), self._ids(stop)
        whole = self._ids(special + text + stop)
        last = len(whole) - len(tail)
        if last < len(head) or whole[: len(head)] != head or whole[last:] != tail:
            return None
        ids = whole[len(head) : last]
        if not self._plain.accepts(text, ids):
            return None
        return np.array(ids + self._after, np.int32)

    def _ids(self, text: str) -> list[int]:
        return self._tokenizer(text, add_special_tokens=False)["input_ids"] if text else []


def marks_words(tokenizer: Any) -> bool:
    """Returns whether a tokenizer marks the start of a word in a text that is encoded alone."""
    ids = tokenizer("a", add_special_tokens=False)["input_ids"]
    return str((tokenizer.convert_ids_to_tokens(ids) or [""])[0]).startswith(MARKS)
