"""`Tokenizer`: the protocol of tokenizers, which those of `transformers` satisfy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
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
    """Returns the token ids of a text. Special tokens in it are encoded as plain text.

    Lone surrogates are replaced by question marks: UTF-8 cannot encode them and tokenizers reject
    them.
    """
    options: dict[str, Any] = {"add_special_tokens": False}
    if hasattr(tokenizer, "split_special_tokens"):  # those of `transformers`
        options["split_special_tokens"] = True
    return list(tokenizer.encode(encodable(text), **options))


def decode(tokenizer: Tokenizer, ids: Iterable[int], silent: Set[int]) -> str:
    """Returns the text of token ids, with the special tokens among them but for the silent ones.

    Args:
        tokenizer: the tokenizer.
        ids: the token ids.
        silent: see `silent_tokens`.
    """
    options: dict[str, Any] = {}
    if hasattr(tokenizer, "all_special_ids"):  # those of `transformers`
        options = {"skip_special_tokens": False, "clean_up_tokenization_spaces": False}
    return tokenizer.decode([token for token in map(int, ids) if token not in silent], **options)


def silent_tokens(tokenizer: Any, ends: Iterable[int]) -> frozenset[int]:
    """Returns the tokens that are no part of an action's text: the ends of turns, and padding.

    Args:
        tokenizer: the tokenizer. Only those of `transformers` have such tokens.
        ends: the tokens that end an action. Ordinary tokens among them, such as a line break, are
            text.
    """
    added = getattr(tokenizer, "added_tokens_decoder", {})
    named = {getattr(tokenizer, name, None) for name in ("eos_token_id", "pad_token_id")}
    return frozenset(number for number in {*ends, *named} if number in added)
