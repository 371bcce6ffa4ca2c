"""The default model: a small decoder and tokenizer made from an environment's own text.

Everything is made here, from a seed: nothing is downloaded. The result is an ordinary Hugging Face
folder.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class TinySize:
    """Size of a small Llama-style decoder (tied embeddings).

    Attributes:
        layers: number of blocks.
        hidden: width.
        heads: attention heads; hidden / heads is even.
        intermediate: width of the MLP.
        vocabulary: largest number of tokens, special ones included.
        positions: longest sequence.
    """

    layers: int
    hidden: int
    heads: int
    intermediate: int
    vocabulary: int
    positions: int


SIZES: dict[str, TinySize] = {
    "nano": TinySize(2, 64, 4, 128, 1024, 2048),
    "tiny": TinySize(3, 128, 4, 256, 2048, 4096),
    "small": TinySize(6, 256, 8, 768, 4096, 4096),
}


def tiny_model(
    folder: str | Path,
    texts: Sequence[str],
    *,
    seed: int = 0,
    size: str | TinySize = "tiny",
) -> Path:
    """Makes a model and its tokenizer, trained on texts, and saves them as a Hugging Face folder.

    Raises:
        ValueError: for an unknown size or no text at all.
    """
    raise NotImplementedError


def tiny_policy(
    env_id: str,
    *,
    seed: int = 0,
    size: str | TinySize = "tiny",
    folder: str | Path | None = None,
    episodes: int = 32,
    **env_kwargs: Any,
) -> Any:
    """Returns a fresh `Policy` whose tokenizer has read the environment's training tasks.

    Args:
        env_id: id of an environment.
        seed: of the weights, and of the episodes read.
        size: a name of `SIZES`, or a size.
        folder: where to keep the model; None: a temporary folder that is removed again.
        episodes: how many episodes of expert and random play are read.
        **env_kwargs: arguments of the environment.
    """
    raise NotImplementedError


def played_texts(env_id: str, *, seed: int = 0, episodes: int = 32, **env_kwargs: Any) -> list[str]:
    """Returns what expert and random agents read and say in an environment's training tasks."""
    raise NotImplementedError
