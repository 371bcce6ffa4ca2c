"""The configuration of a model and its tokenizer, as generation and training need them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agentgym.errors import ConfigError

PLAIN_OUTPUTS = {
    "output_router_logits": False,
    "output_attentions": False,
    "output_hidden_states": False,
    "return_dict": True,
}
"""Settings that change the outputs of a forward pass."""


def plain_outputs(config: Any) -> None:
    """Turns off outputs that a model would add to its logits, in a configuration and its parts.

    `output_router_logits` joins the routing of all layers at all positions, but the last layer is
    computed where it is read. There is no balancing loss for mixtures of experts.
    """
    for part in _parts(config):
        for name, value in PLAIN_OUTPUTS.items():
            if getattr(part, name, value) != value:
                setattr(part, name, value)


def without_dropout(config: Any) -> None:
    """Sets dropout to 0 in a configuration and its parts.

    With dropout, log-probs in training would differ from the behaviour log-probs.
    """
    for part in _parts(config):
        for key, value in part.to_dict().items():
            if isinstance(value, float) and ("dropout" in key or "pdrop" in key):
                setattr(part, key, 0.0)


def max_length(config: Any) -> int | None:
    """Returns the maximum sequence length in tokens, or None if it is unlimited."""
    longest: int | None = getattr(config, "max_position_embeddings", None)
    rope = getattr(config, "rope_parameters", None) or {}
    if rope.get("rope_type") == "longrope":
        original: int = rope["original_max_position_embeddings"]
        return original if longest is None else min(longest, original)
    return longest


def check_embedded(tokenizer: Any, rows: int, token: int) -> None:
    """Checks that a token has an embedding. A tokenizer may have some more tokens than its model.

    Args:
        tokenizer: the tokenizer.
        rows: number of embeddings of the model.
        token: the highest token id that is about to be fed.

    Raises:
        ConfigError: if it has none.
    """
    if token >= rows:
        raise ConfigError(
            f"The token {tokenizer.convert_ids_to_tokens(token)!r} (id {token}) has no embedding: "
            f"the tokenizer has {len(tokenizer)} tokens and the model {rows} embeddings. Use the "
            "tokenizer of this model, leave the token out of prompts and actions, or enlarge the "
            "model with resize_token_embeddings."
        )


def _parts(config: Any) -> Iterator[Any]:
    """Yields a configuration and those of its parts, such as text and vision."""
    yield config
    for name in getattr(type(config), "sub_configs", {}):
        if hasattr(found := getattr(config, name, None), "to_dict"):
            yield from _parts(found)
