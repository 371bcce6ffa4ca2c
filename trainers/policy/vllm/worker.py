"""The parts that run in vLLM's workers: `SupportProcessor` and `WeightReader`.

Importing this module needs vLLM.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor
from vllm.v1.sample.logits_processor import (  # pyright: ignore[reportMissingImports]
    AdapterLogitsProcessor,
)

from agentgym.tokens.trie import TokenTrie
from agentgym.trainers.policy.distribution import most_probable


class SupportProcessor(AdapterLogitsProcessor):
    """Restricts each request to the tokens that generation and training normalise over.

    vLLM's own top-k keeps all tokens that tie for the last place, `distribution.draw` the first
    ones. The arguments are in a request's `extra_args`:

    - `trie`: a `TokenTrie` or the token sequences of the candidates, and `tokens`, the action
      tokens that the prompt ends with;
    - `top_k` and `top_p`, as in `Sampling`.
    """

    def is_argmax_invariant(self) -> bool:
        """Returns False: the most probable token may not be allowed."""
        return False

    def new_req_logits_processor(self, params: Any) -> Callable[[list[int], Tensor], Tensor] | None:
        """Returns the function that masks a request's logits, or None if all tokens are allowed."""
        arguments = params.extra_args or {}
        trie, top_k, top_p = (arguments.get(name) for name in ("trie", "top_k", "top_p"))
        if trie is not None and not isinstance(trie, TokenTrie):
            trie = TokenTrie(trie)
        if trie is None and top_k is None:
            return None

        def mask(output: list[int], logits: Tensor) -> Tensor:
            if trie is not None:
                logits = _allow(logits, trie, (*arguments["tokens"], *output))
            if top_k is not None and top_p is not None:
                kept = most_probable(logits[None] / params.temperature, top_k, top_p)
                logits = logits.masked_fill(~kept[0], -torch.inf)
            return logits

        return mask


class WeightReader:
    """An extension of vLLM's worker that takes over weights from a file."""

    def read_weights(self, file: str) -> None:
        """Loads the weights of a safetensors file, with the names of files of `transformers`."""
        load_weights(self, load_file(file).items())


def load_weights(worker: Any, weights: Iterable[tuple[str, Tensor]]) -> None:
    """Replaces the weights of a worker's model.

    Tied weights have both names. vLLM's models with tied embeddings need both, except for those
    without an output head, such as Gemma's.
    """
    model = worker.get_model()
    for layer in model.modules():
        method: Any = getattr(layer, "quant_method", None)
        if worker.device.type == "cpu" and getattr(method, "moe_kernel", None) is not None:
            method.moe_kernel = None  # with a kernel, vLLM 0.32 does not pack new experts for CPUs
    has_head = hasattr(model, "lm_head")
    fitting = (pair for pair in weights if has_head or not pair[0].startswith("lm_head."))
    worker.reload_weights(weights_iterator=fitting, is_checkpoint_format=True)


def _allow(logits: Tensor, trie: TokenTrie, tokens: tuple[int, ...]) -> Tensor:
    """Returns logits [V] that are -inf except at the tokens that may follow."""
    node = trie.walk(tokens)
    assert node is not None
    allowed = torch.tensor(trie.children(node), device=logits.device)
    return torch.full_like(logits, -torch.inf).index_copy(0, allowed, logits[allowed])
