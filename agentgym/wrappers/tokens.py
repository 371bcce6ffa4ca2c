"""What the wrappers ask of a tokenizer: any of `transformers`, or a few lines of one's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from agentgym.errors import ConfigError


class Tokenizer(Protocol):
    """A tokenizer: `encode`, `decode`, and `__len__` or `vocab_size`.

    `eos_token_id` and `pad_token_id` are used where they exist.
    """

    def encode(self, text: str, *, add_special_tokens: bool = ...) -> Sequence[int]:
        """Returns the token ids of a text."""
        ...

    def decode(self, ids: list[int]) -> str:
        """Returns the text of token ids."""
        ...


def vocabulary_size(tokenizer: Any) -> int:
    """Returns how many token ids a tokenizer has, added ones included."""
    if not callable(getattr(tokenizer, "encode", None)) or isinstance(tokenizer, str | bytes):
        raise ConfigError(
            f"Expected a tokenizer, such as transformers.AutoTokenizer.from_pretrained(...); "
            f"got {tokenizer!r:.80} ({type(tokenizer).__name__})."
        )
    size = len(tokenizer) if hasattr(tokenizer, "__len__") else getattr(tokenizer, "vocab_size", 0)
    if not isinstance(size, int) or size < 1:
        raise ConfigError(
            f"A tokenizer needs a length or a vocab_size of at least 1, got {size!r} from "
            f"{type(tokenizer).__name__}."
        )
    return size


def encode(tokenizer: Tokenizer, text: str) -> list[int]:
    """Returns the token ids of any text, without special tokens.

    Lone surrogates, which no UTF-8 has and tokenizers refuse, become question marks.
    """
    clean = text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
    return list(tokenizer.encode(clean, add_special_tokens=False))
