"""A minimal tokenizer with one token per character."""

from __future__ import annotations

from collections.abc import Sequence


class Characters:
    """Token 0 is padding, 1 the end, 2 unknown, followed by the characters of the alphabet.

    It has no base class: wrappers must only rely on these methods.
    """

    eos_token_id = 1
    pad_token_id = 0

    def __init__(self, alphabet: str):
        self.alphabet = alphabet

    def __len__(self) -> int:
        return len(self.alphabet) + 3

    def encode(self, text: str, *, add_special_tokens: bool = True) -> Sequence[int]:
        """Returns a token per character."""
        assert not add_special_tokens
        return [self.alphabet.find(character) + 3 for character in text]

    def decode(self, ids: list[int]) -> str:
        """Returns a character per token."""
        return "".join(self.alphabet[i - 3] if i >= 3 else "�" for i in ids)


LATIN = Characters("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ 0123456789.,!?:[]'>+-\n")
