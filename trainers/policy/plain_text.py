"""Plain text: text from outside is encoded so that it cannot contain a control token.

Control tokens are the special tokens, and the added tokens with which the chat template marks
turns. An observation that contains the text of one (`<|im_end|>`) must not end a turn.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal

from agentgym.trainers.policy.chat_template import template_pieces
from agentgym.utils.printable import encodable

Source = Literal["observation", "action", "instructions"]
_BYTE = re.compile(r"<0x[0-9A-F]{2}>")
"""The pieces that stand for single bytes in vocabularies with byte fallback."""
_TAG = re.compile(r"</?(\w+)>")
"""Tags around a part of a reply, such as <think>."""


class PlainText:
    """Encodes text of one source without control tokens.

    A control token in an observation is any special token, and any added token that the chat
    template writes. Replies may contain the tags of thoughts with which a template begins them.
    Instructions may contain the special tokens that they tell the model to write, but not those
    that mark turns.

    Args:
        tokenizer: a `transformers` tokenizer.
        source: the source of the text.
    """

    def __init__(self, tokenizer: Any, source: Source):
        self._tokenizer, self._source = tokenizer, source

    @cached_property
    def control(self) -> frozenset[int]:
        """Ids of the control tokens."""
        tokenizer = self._tokenizer
        added = getattr(tokenizer, "added_tokens_decoder", {})
        opening, between = self._marks
        found = opening | between
        if self._source == "action":
            found = between | {token for token in opening if not self._begins_a_reply(token)}
        if self._source != "instructions":
            found |= set(getattr(tokenizer, "all_special_ids", ()))
            found |= {number for number, token in added.items() if token.special}
            listed = getattr(tokenizer, "chat_control_tokens", None) or ()
            found |= {number for number, token in added.items() if token.content in listed}
        ends = {getattr(tokenizer, f"{name}_token_id", None) for name in ("eos", "bos", "pad")}
        unknown = getattr(tokenizer, "unk_token_id", None)  # stands for ordinary text
        text = {number for number, token in added.items() if _BYTE.fullmatch(token.content)}
        return frozenset(found - {unknown} - text | {each for each in ends if each is not None})

    @cached_property
    def _marks(self) -> tuple[set[int], set[int]]:
        """The added tokens that the chat template writes before a reply, and elsewhere."""
        tokenizer = self._tokenizer
        if not getattr(tokenizer, "chat_template", None):
            return set(), set()
        added = getattr(tokenizer, "added_tokens_decoder", {})

        def marks(text: str) -> set[int]:
            ids = tokenizer(text, add_special_tokens=False)["input_ids"]
            # Gemma has added tokens of line breaks, which are ordinary text.
            return {i for i in ids if i in added and not added[i].content.isspace()}

        pieces = template_pieces(tokenizer)
        return marks(pieces.after), marks(pieces.opening) | marks(pieces.between)

    def _begins_a_reply(self, token: int) -> bool:
        """Whether a token is a tag of a part of a reply, and not of the whole turn."""
        added = self._tokenizer.added_tokens_decoder
        tag = _TAG.fullmatch(added[token].content)
        turns = {added[mark].content for mark in self._marks[1]}
        return tag is not None and f"</{tag[1]}>" not in turns

    def __call__(self, text: str) -> list[int]:
        """Returns the token ids of a text, without special tokens around it.

        If there is no other spelling of a control token in the vocabulary, it is left out. Lone
        surrogates, which cannot be tokenised, are replaced by question marks.
        """
        text = encodable(text)
        ids = self._ids(text)
        if self.accepts(text, ids):
            return ids
        backend = self._backend
        if backend is None:
            return self._spelled(text, lambda part: self._pieces(self._ids(part)))
        # The steps of the backend, without its search for added tokens.
        text = self._normalized(text)
        parts = [text]
        if backend.pre_tokenizer is not None:
            parts = [part for part, _ in backend.pre_tokenizer.pre_tokenize_str(text)]
        model = backend.model

        def tokenize(part: str) -> list[tuple[int, str]]:
            return [(token.id, token.value) for token in model.tokenize(part)]

        return [token for part in parts for token in self._spelled(part, tokenize)]

    def accepts(self, text: str, ids: Sequence[int]) -> bool:
        """Returns whether the ids of a text hold no control token, and no byte that it names."""
        return self.control.isdisjoint(ids) and not self._spells_a_byte(text, ids)

    def contains_control(self, text: str) -> bool:
        """Returns whether a text contains control tokens if it is encoded as it is."""
        ids = self._tokenizer(encodable(text), add_special_tokens=False)["input_ids"]
        return not self.control.isdisjoint(ids)

    def _ids(self, text: str) -> list[int]:
        return self._tokenizer(text, add_special_tokens=False, split_special_tokens=True)[
            "input_ids"
        ]

    def _pieces(self, ids: Iterable[int]) -> list[tuple[int, str]]:
        ids = list(ids)
        return list(zip(ids, self._tokenizer.convert_ids_to_tokens(ids), strict=True))

    @property
    def _backend(self) -> Any:
        return getattr(self._tokenizer, "backend_tokenizer", None)

    def _normalized(self, text: str) -> str:
        normalizer = getattr(self._backend, "normalizer", None)
        return text if normalizer is None else normalizer.normalize_str(text)

    def _spells_a_byte(self, text: str, ids: Sequence[int]) -> bool:
        """Whether the name of a byte in the text has become that byte, such as a line break."""
        text = self._normalized(text)
        if "<0x" not in text:
            return False
        return any(_BYTE.fullmatch(piece or "") and piece in text for _, piece in self._pieces(ids))

    def _spelled(self, text: str, tokenize: Callable[[str], list[tuple[int, str]]]) -> list[int]:
        """Returns the ids of a text, cut inside the pieces that must not be one token."""
        tokens = tokenize(text)
        pieces = {
            piece
            for number, piece in tokens
            if (number in self.control or _BYTE.fullmatch(piece))
            and len(piece) > 1
            and piece in text
        }
        if not pieces:
            return [number for number, _ in tokens if number not in self.control]
        cuts = {
            found.start() + len(piece) // 2
            for piece in pieces
            for found in re.finditer(f"(?={re.escape(piece)})", text)
        }
        ends = [0, *sorted(cuts), len(text)]
        parts = [text[start:stop] for start, stop in pairwise(ends)]
        return [number for part in parts for number in self._spelled(part, tokenize)]
