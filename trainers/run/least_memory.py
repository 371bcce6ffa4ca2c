"""The memory of a GPU that a run needs at least, known before its model is loaded.

Everything else adapts to the memory that is left: the tokens of a forward and backward pass, the
rows that are generated together, and their keys and values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from accelerate import Accelerator

from agentgym.errors import ConfigError
from agentgym.trainers.policy.empty_model import empty_model
from agentgym.trainers.policy.language_model import LanguageModel
from agentgym.trainers.policy.lora import LoraSettings
from agentgym.trainers.policy.model_defaults import Kind
from agentgym.trainers.run.setup import load_dtype
from agentgym.trainers.settings.config import TrainConfig
from agentgym.trainers.settings.running import ModelConfig
from agentgym.trainers.system.gpu_memory import free_bytes
from agentgym.trainers.update.memory import LEAST_TOKENS, LOGIT, activation_bytes, optimizer_bytes

GIB = 1 << 30
SMALLER: tuple[tuple[str, Any, tuple[Kind, ...], str], ...] = (
    ("gradient_checkpointing", True, ("loaded", "adapter"), "--gradient-checkpointing"),
    ("lora_rank", 16, ("loaded",), "--lora-rank 16"),
    ("dtype", "bfloat16", ("loaded", "adapter"), "--dtype bfloat16"),
)
"""Settings that take less memory, from the one that changes least: name, value, the kinds of models
that they suit, and flag."""


@dataclass(frozen=True)
class Need:
    """Bytes of a GPU that a run needs at least.

    Attributes:
        weights: weights of the policy.
        reference: weights of the reference policy, 0 if it is an adapter.
        optimizer: gradients, moments and master weights.
        passes: activations and logits of the smallest microbatch.
    """

    weights: int
    reference: int
    optimizer: int
    passes: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.weights + self.reference + self.optimizer + self.passes

    def __str__(self) -> str:
        parts = {
            "weights": self.weights,
            "reference": self.reference,
            "gradients and optimiser": self.optimizer,
            "activations": self.passes,
        }
        return ", ".join(f"{words} {size / GIB:.1f}" for words, size in parts.items() if size)


def need_of(config: TrainConfig) -> Need:
    """Returns the memory that a run with these settings needs at least.

    A separate critic, the policies of further roles and an engine beside them come on top.

    Args:
        config: the settings.

    Raises:
        ConfigError: if the model's configuration cannot be opened.
    """
    return _need(config, config.model)


def _need(config: TrainConfig, settings: ModelConfig) -> Need:
    """Returns the memory with other settings of the model."""
    lora = None
    if settings.lora_rank:
        lora = LoraSettings(settings.lora_rank, settings.lora_alpha, settings.lora_targets)
    dtype = load_dtype(settings, None)
    model = empty_model(settings.model, lora, dtype, settings.trust_remote_code)
    weights = _weight_bytes(model)
    whole = all(p.requires_grad for p in model.parameters())
    shape = model.config.get_text_config(decoder=True)
    autocast = settings.mixed_precision != "no"
    checkpointing = config.kind != "new" and settings.gradient_checkpointing
    passes = LEAST_TOKENS * activation_bytes(model, autocast, checkpointing)
    passes += LOGIT * min(LanguageModel.logits_at_once, LEAST_TOKENS * shape.vocab_size)
    reference = weights if whole and config.loss.kl_coef > 0 else 0
    return Need(weights, reference, optimizer_bytes(model), passes)


def _weight_bytes(model: Any) -> int:
    """Returns the bytes of all weights. Those that files hold quantised have 4 bits or more."""
    quantised = getattr(model.config, "quantization_config", None) is not None
    return sum(
        p.numel() // 2 if quantised and not p.requires_grad else p.numel() * p.element_size()
        for p in model.parameters()
    )


def check_fits(accelerator: Accelerator, config: TrainConfig) -> None:
    """Checks that a run fits into the free memory of its GPU, if it has one for itself.

    Args:
        accelerator: the accelerator. Sharded processes need less than the whole.
        config: the settings.

    Raises:
        ConfigError: if it does not fit, with the settings that would.
    """
    if accelerator.device.type != "cuda" or accelerator.is_fsdp2:
        return
    need, free = need_of(config), free_bytes(accelerator.device)
    if need.total > free:
        raise ConfigError(
            f"To train {config.model.model}, at least {need.total / GIB:.1f} GiB of GPU memory are "
            f"needed ({need}), and {free / GIB:.1f} are free. {remedy(config, free)}"
        )


def remedy(config: TrainConfig, free: int) -> str:
    """Returns which settings of the model would fit into the free memory, in a sentence."""
    for flags, need in _smaller(config):
        if need.total <= free:
            return f"It would fit with {flags} ({need.total / GIB:.1f} GiB)."
    return "Choose a smaller model, or a GPU with more free memory."


def _smaller(config: TrainConfig) -> Iterator[tuple[str, Need]]:
    """Yields settings that take less memory, each in addition to those before it."""
    settings, least, flags = config.model, need_of(config), ""
    for name, value, kinds, flag in SMALLER:
        if config.kind in kinds and getattr(settings, name) != value:
            changed = replace(settings, **{name: value})
            need = _need(config, changed)
            if need.total < least.total:
                settings, least, flags = changed, need, f"{flags} {flag}".strip()
                yield flags, need
