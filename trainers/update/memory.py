"""The number of tokens per forward and backward pass that fit into memory."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np
import torch
from accelerate.utils import gather_object
from numpy.typing import NDArray
from torch import distributed, nn

from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.update.learner import Rows

T = TypeVar("T")

CPU_TOKENS = 4096
"""Tokens per microbatch on a CPU, whose activations fit into its caches."""
LEAST_TOKENS = 512
"""The fewest tokens per microbatch that are worth a forward pass."""
SHARE = 0.8
"""Share of the free memory that a microbatch may take. The rest covers fragmentation."""

_ADVICE = (
    "Out of memory with {} tokens per forward and backward pass, and the longest context has {} "
    "tokens (with normalization, its admissible actions included). To save memory, set max_tokens, "
    "gradient_checkpointing, or lora_rank."
)
_SHARDED = (
    "Out of memory with {} tokens per forward and backward pass. Sharded processes exchange "
    "weights and gradients in every layer, so they cannot repeat a pass with fewer tokens: set "
    "microbatch_tokens to {}, and continue with --resume."
)


class TokenBudget:
    """Tokens per forward and backward pass, halved whenever a device runs out of memory.

    Args:
        tokens: number of tokens, padding included, or a function that computes it at first use.
        shared: whether the processes halve it together. Each must then take part in every call of
            `attempt` and `each`. Otherwise a process halves its own.
    """

    def __init__(self, tokens: int | Callable[[], int], *, shared: bool = False):
        self._tokens, self._shared = tokens, shared

    @property
    def tokens(self) -> int:
        """Tokens per forward and backward pass, padding included."""
        if callable(self._tokens):
            self._tokens = self._tokens()
        return self._tokens

    def each(
        self,
        rows: Rows,
        part: NDArray[np.int64],
        step: Callable[[NDArray[np.int64]], T],
        *,
        drop: Callable[[], Any] = lambda: None,
        together: bool = False,
    ) -> list[T]:
        """Returns the results of a function for each microbatch of some rows.

        Args:
            rows: all rows.
            part: indices of the rows to split.
            step: maps the row indices of a microbatch to a result. It may add to gradients.
            drop: drops the gradients of a failed attempt.
            together: keep the rows of a trajectory in one microbatch.

        Raises:
            torch.OutOfMemoryError: as `attempt`.
        """

        def attempt(limit: int) -> list[T]:
            return [step(piece) for piece in rows.microbatches(part, limit, together)]

        return self.attempt(rows, attempt, drop)

    def attempt(
        self,
        rows: Rows,
        call: Callable[[int], T],
        drop: Callable[[], Any] = lambda: None,
        *,
        repeatable: bool = True,
    ) -> T:
        """Calls a function, and again with half the tokens if a process runs out of memory.

        Args:
            rows: the rows of all attempts.
            call: maps a number of tokens per forward and backward pass to a result.
            drop: drops the gradients of a failed attempt.
            repeatable: False: the processes communicate in `call` and wait there for one that ran
                out of memory, so its error is raised, with the setting to change.

        Raises:
            torch.OutOfMemoryError: if a single row does not fit, or with `repeatable` False.
        """
        longest = int(rows.lengths.max(initial=0))
        while True:
            limit, error, result = self.tokens, None, None
            try:
                result = call(limit)
            except torch.OutOfMemoryError as raised:
                # Without its traceback, which holds the tensors of the attempt.
                error = raised.with_traceback(None)
            failed = error is not None
            if self._shared and repeatable:
                failed = _anywhere(failed)
            if not failed:
                return result  # type: ignore[return-value]
            if limit <= longest or not repeatable:
                error = error or torch.OutOfMemoryError("Another process ran out of memory.")
                fits = limit > longest
                error.add_note(
                    _SHARDED.format(limit, limit // 2) if fits else _ADVICE.format(limit, longest)
                )
                raise error
            drop()
            torch.cuda.empty_cache()
            self._tokens = limit // 2
            warnings.warn(
                f"Out of memory with {limit} tokens per forward and backward pass: continuing with "
                f"{limit // 2}.",
                RuntimeWarning,
                stacklevel=2,
            )


def divide_gradients(parameters: Iterable[nn.Parameter], count: float) -> None:
    """Divides the gradients of a sum of `count` losses, so that they are those of the mean."""
    for parameter in parameters:
        if parameter.grad is not None:
            parameter.grad /= count


def _anywhere(failed: bool) -> bool:
    """Returns whether an attempt failed in any process."""
    if not (distributed.is_available() and distributed.is_initialized()):
        return failed
    return any(gather_object([failed]))


def layer_bytes(config: Any, itemsize: int) -> int:
    """Returns the bytes per token that the backward pass of a decoder layer needs.

    They are about ten vectors of the hidden size H (inputs of norms and projections, queries, keys,
    values) and four of the intermediate size I (gate, its activation, up projection, product).

    Args:
        config: the text configuration of a model.
        itemsize: bytes per number.
    """
    intermediate = getattr(config, "intermediate_size", None) or 4 * config.hidden_size
    return itemsize * (10 * config.hidden_size + 4 * intermediate)


def activation_bytes(config: Any, itemsize: int, checkpointing: bool) -> int:
    """Returns the bytes per token that a forward and backward pass needs at most.

    Args:
        config: the text configuration of a model.
        itemsize: bytes per number.
        checkpointing: whether each layer keeps its input only. One layer at a time is then
            computed again.
    """
    layer, layers = layer_bytes(config, itemsize), config.num_hidden_layers
    kept = layers * config.hidden_size * itemsize + layer if checkpointing else layers * layer
    return kept + layer  # and the gradients of a layer


def fitting_tokens(policy: Policy, learner: nn.Module, autocast: bool) -> int:
    """Returns the tokens per microbatch: a constant on a CPU, by the free memory on a GPU.

    Args:
        policy: the policy.
        learner: the module with all trained parameters.
        autocast: whether activations are in half precision whatever the weights are.
    """
    device = policy.device
    if device.type != "cuda":
        return CPU_TOKENS
    cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    free = torch.cuda.mem_get_info(device)[0] + cached
    trained = [p for p in learner.parameters() if p.requires_grad]
    # In float32: gradients, the two moments of AdamW, master weights, and a part of the logits.
    free -= sum(p.numel() * (12 if p.element_size() == 4 else 16) for p in trained)
    free -= 16 * policy.logits_at_once
    config = policy.model.config.get_text_config(decoder=True)
    itemsize = 2 if autocast else policy.model.get_input_embeddings().weight.element_size()
    needed = activation_bytes(config, itemsize, policy.gradient_checkpointing)
    return max(LEAST_TOKENS, int(SHARE * free / needed))
