"""The output head of a causal LM, computed only at the positions that are needed.

A forward pre-hook on the head selects the positions and records the hidden states. Operations that
a model applies to its logits after the head (capping, scaling) are preserved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from agentgym.errors import ConfigError
from agentgym.trainers.policy.distribution import score, score_gradient


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


@dataclass(frozen=True)
class HeadOutput:
    """Operations that a model applies to the output of its head: scaling, then soft capping.

    Attributes:
        factor: multiplies the logits (Cohere, Falcon-H1).
        divisor: divides the logits (Granite).
        cap: the logits are `cap * tanh(logits / cap)` (Gemma).
    """

    factor: float | None = None
    divisor: float | None = None
    cap: float | None = None

    @classmethod
    def of(cls, config: Any) -> HeadOutput:
        """Returns the operations that a model's configuration names."""

        def first(*names: str) -> float | None:
            return next((found for name in names if (found := getattr(config, name, None))), None)

        return cls(
            factor=first("logit_scale", "lm_head_multiplier"),
            divisor=first("logits_scaling"),
            cap=first("final_logit_softcapping", "logits_soft_cap", "output_logit_soft_cap"),
        )

    def __call__(self, logits: Tensor) -> Tensor:
        """Returns the logits after the operations."""
        if self.factor is not None:
            logits = logits * self.factor
        if self.divisor is not None:
            logits = logits / self.divisor
        return logits if self.cap is None else torch.tanh(logits / self.cap) * self.cap


@torch.no_grad()
def check_head(model: Any, token: int) -> HeadOutput | None:
    """Checks on a probe of two tokens that `head_reads` works on a model.

    Args:
        model: a `transformers` causal LM.
        token: token id of the probe.

    Returns:
        The operations after the head, or None if they are unknown.

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
    plain = head(states[0][:, 1:])
    known = HeadOutput(), HeadOutput.of(model.config.get_text_config(decoder=True))
    return next((each for each in known if torch.equal(each(plain), logits)), None)


@dataclass(frozen=True)
class Head:
    """The last operations of a model: from inputs [k, H] to logits [k, V].

    Attributes:
        logits: computes the logits.
        weights: its parameters that require gradients.
    """

    logits: Callable[[Tensor], Tensor]
    weights: tuple[Tensor, ...] = ()


def scores_in_parts(
    head: Head,
    inputs: Tensor,
    target: Tensor,
    support: tuple[Tensor, Tensor] | None,
    temperature: float,
    size: int,
) -> tuple[Tensor, Tensor]:
    """Returns `score` of the head's logits without holding all logits [k, V] in memory.

    The logits are computed for `size` tokens at a time, and again in the backward pass. Gradients
    are those of `score_gradient`, so each part needs about three copies of its logits.

    Args:
        head: the output head.
        inputs: [k, H] inputs of the head.
        target: int64 [k] tokens to score.
        support: offsets and ids as in `score`.
        temperature: divides the logits.
        size: tokens per part.
    """
    offsets, ids = (None, None) if support is None else support
    return _ScoresInParts.apply(  # type: ignore[no-any-return]
        head, temperature, size, target, offsets, ids, inputs, *head.weights
    )


class _ScoresInParts(torch.autograd.Function):
    """`scores_in_parts` for autograd."""

    @staticmethod
    def forward(
        ctx: Any,
        head: Head,
        temperature: float,
        size: int,
        target: Tensor,
        offsets: Tensor | None,
        ids: Tensor | None,
        inputs: Tensor,
        *weights: Tensor,
    ) -> tuple[Tensor, Tensor]:
        device = inputs.device.type
        ctx.head, ctx.temperature, ctx.size = head, temperature, size
        ctx.set_materialize_grads(False)
        ctx.autocast = {
            "device_type": device,
            "enabled": torch.is_autocast_enabled(device),
            "dtype": torch.get_autocast_dtype(device),
        }
        logprobs, entropy = (torch.zeros(len(inputs), device=inputs.device) for _ in range(2))
        for part, cut in _parts(len(inputs), size, offsets, ids):
            scores = score(head.logits(inputs[part]), target[part], cut, temperature)
            logprobs[part], entropy[part] = scores
        # The weights are saved so that autograd notices if they change before the backward pass.
        ctx.save_for_backward(target, offsets, ids, entropy, inputs, *weights)
        return logprobs, entropy

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, *by_scores: Any
    ) -> tuple[Any, ...]:
        by_logprob, by_entropy = by_scores
        target, offsets, ids, entropy, inputs, *weights = ctx.saved_tensors
        if by_logprob is None:
            by_logprob = torch.zeros_like(entropy)
        wanted = ctx.needs_input_grad[6]
        gradient = torch.empty_like(inputs) if wanted else None
        # Summed in float32, because half precision loses small terms.
        sums = [torch.zeros_like(weight, dtype=torch.float32) for weight in weights]
        for part, cut in _parts(len(inputs), ctx.size, offsets, ids):
            some = inputs[part].detach().requires_grad_(wanted)
            with torch.enable_grad(), torch.autocast(**ctx.autocast):
                logits = ctx.head.logits(some)
            by_logits = score_gradient(
                logits, target[part], cut, ctx.temperature,
                entropy[part], by_logprob[part],
                None if by_entropy is None else by_entropy[part],
            )  # fmt: skip
            leaves = [some] * wanted + weights
            found = list(torch.autograd.grad(logits, leaves, by_logits))
            if gradient is not None:
                gradient[part] = found.pop(0)
            for total, term in zip(sums, found, strict=True):
                total += term
        by_weights = [s.to(weight.dtype) for s, weight in zip(sums, weights, strict=True)]
        return (*[None] * 6, gradient, *by_weights)


def _parts(
    count: int, size: int, offsets: Tensor | None, ids: Tensor | None
) -> Iterator[tuple[slice, tuple[Tensor, Tensor] | None]]:
    """Yields slices of `size` tokens, and the support of the tokens in each."""
    for start in range(0, count, size):
        stop = min(start + size, count)
        cut = None
        if offsets is not None and ids is not None:
            some = offsets[start : stop + 1]
            cut = some - some[0], ids[some[0] : some[-1]]
        yield slice(start, stop), cut
