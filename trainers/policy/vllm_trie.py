"""`TrieProcessor`: constrained sampling in vLLM. Importing this module needs vLLM."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from vllm.v1.sample.logits_processor import (  # pyright: ignore[reportMissingImports]
    AdapterLogitsProcessor,
)

from agentgym.utils.token_trie import TokenTrie


class TrieProcessor(AdapterLogitsProcessor):
    """Restricts each request to the tokens of its trie.

    A request's `extra_args` hold its `trie` and `tokens`, the action tokens that its prompt ends
    with.
    """

    def is_argmax_invariant(self) -> bool:
        """Returns False: the most probable token may not be allowed."""
        return False

    def new_req_logits_processor(self, params: Any) -> Callable[[list[int], Tensor], Tensor] | None:
        """Returns the function that masks a request's logits, or None for a free-form action."""
        arguments = params.extra_args or {}
        trie: TokenTrie | None = arguments.get("trie")
        if trie is None:
            return None
        before = arguments["tokens"]

        def mask(output: list[int], logits: Tensor) -> Tensor:
            node = trie.walk((*before, *output))
            assert node is not None
            allowed = torch.tensor(trie.children(node), device=logits.device)
            masked = torch.full_like(logits, -torch.inf)
            return masked.index_copy(0, allowed, logits[allowed])

        return mask
