"""`Tokenizer`: the protocol of tokenizers, which those of `transformers` satisfy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from agentgym.errors import ConfigError
from agentgym.utils.printable import encodable


class Tokenizer(Protocol):
    """A tokenizer: `encode`, `decode`, and `__len__` or `vocab_size`.

    The attributes `eos_token_id` and `pad_token_id` are used if available.
    """

    def encode(self, text: str, *, add_special_tokens: bool = ...) -> Sequence[int]:
        """Returns the token ids of a text."""
        ...

    def decode(self, ids: list[int]) -> str:
        """Returns the text of token ids."""
        ...


def vocabulary_size(tokenizer: Any) -> int:
    """Returns the number of token ids of a tokenizer, including added tokens.

    Raises:
        ConfigError: if it is not a tokenizer or has no valid size.
    """
    if not callable(getattr(tokenizer, "encode", None)) or isinstance(tokenizer, str | bytes):
        raise ConfigError(
            f"Expected a tokenizer, such as transformers.AutoTokenizer.from_pretrained(...), "
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
    """Returns the token ids of a text, without special tokens.

    Lone surrogates are replaced by question marks: UTF-8 cannot encode them and tokenizers reject
    them.
    """
    return list(tokenizer.encode(encodable(text), add_special_tokens=False))


def decode(tokenizer: Tokenizer, ids: Sequence[int]) -> str:
    """Returns the text of token ids, without special tokens."""
    options: dict[str, Any] = {}
    if hasattr(tokenizer, "all_special_ids"):  # those of `transformers`
        options = {"skip_special_tokens": True, "clean_up_tokenization_spaces": False}
    return tokenizer.decode(list(ids), **options)
