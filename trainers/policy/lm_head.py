"""The output head of a causal LM, computed only at the positions that are needed.

A forward pre-hook on the head selects the positions and records the hidden states. Operations that
a model applies to its logits after the head (capping, scaling) are preserved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from agentgym.errors import ConfigError
from agentgym.trainers.policy.distribution import score


@contextmanager
def head_reads(model: Any, pick: Callable[[Tensor], Tensor]) -> Iterator[list[Tensor]]:
    """Context manager that restricts the head to the hidden states selected by `pick`.

    Args:
        model: a `transformers` causal LM.
        pick: maps hidden states [B, S, H] to the selected ones.

    Yields:
        A list to which the hidden states [B, S, H] are appended when the model is called.
    """
    states: list[Tensor] = []

    def before(_module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        states.append(args[0])
        return (pick(args[0]), *args[1:])

    handle = model.get_output_embeddings().register_forward_pre_hook(before)
    try:
        yield states
    finally:
        handle.remove()


@torch.no_grad()
def check_head(model: Any, token: int) -> bool:
    """Checks on a probe of two tokens that `head_reads` works on a model.

    Args:
        model: a `transformers` causal LM.
        token: token id of the probe.

    Returns:
        Whether the model's logits are the output of its head, without further operations.

    Raises:
        ConfigError: if the model has no head or does not apply it to its hidden states.
    """
    head = model.get_output_embeddings()
    if head is None:
        raise ConfigError(f"{type(model).__name__} has no output head: is it a causal LM?")
    probe = torch.tensor([[token, token]], device=next(model.parameters()).device)
    whole = model(input_ids=probe, use_cache=False).logits
    with head_reads(model, lambda hidden: hidden[:, 1:]) as states:
        logits = model(input_ids=probe, use_cache=False).logits
    if len(states) != 1 or logits.shape != whole[:, 1:].shape:
        raise ConfigError(
            f"{type(model).__name__} does not apply its output head to its hidden states in the "
            "usual way. It cannot be used as a policy."
        )
    return torch.equal(head(states[0][:, 1:]), logits)


def scores_in_parts(
    head: nn.Module,
    hidden: Tensor,
    target: Tensor,
    support: tuple[Tensor, Tensor] | None,
    temperature: float,
    size: int,
) -> tuple[Tensor, Tensor]:
    """Returns `score(head(hidden), ...)` without holding all logits [k, V] in memory.

    The logits are computed for `size` tokens at a time, and again in the backward pass.

    Args:
        head: the output head.
        hidden: [k, H] hidden states.
        target: int64 [k] tokens to score.
        support: offsets and ids as in `score`.
        temperature: divides the logits.
        size: tokens per part.
    """

    def part(
        some: Tensor, target: Tensor, support: tuple[Tensor, Tensor] | None
    ) -> tuple[Tensor, Tensor]:
        return score(head(some), target, support, temperature)

    parts: list[tuple[Tensor, Tensor]] = []
    for start in range(0, len(hidden), size):
        stop = min(start + size, len(hidden))
        cut = None
        if support is not None:
            offsets = support[0][start : stop + 1]
            cut = offsets - offsets[0], support[1][offsets[0] : offsets[-1]]
        scored = checkpoint(
            part,
            hidden[start:stop],
            target[start:stop],
            cut,
            use_reentrant=False,
            preserve_rng_state=False,
        )
        assert scored is not None
        parts.append(scored)
    return torch.cat([logprobs for logprobs, _ in parts]), torch.cat([h for _, h in parts])
