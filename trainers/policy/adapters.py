"""LoRA adapters: new ones, those of files, and the frozen one of the reference policy."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from agentgym.errors import ConfigError, MissingExtraError
from agentgym.trainers.policy.base_folder import find_base
from agentgym.trainers.policy.lora import LoraSettings
from agentgym.trainers.policy.lora_targets import lora_targets
from agentgym.trainers.policy.model_files import check_adapter, check_adapter_file

REFERENCE = "reference"
"""Name of the frozen adapter of the reference policy."""


def weights_in(folder: str | Path, device: str = "cpu") -> dict[str, Tensor]:
    """Returns the weights in an adapter's folder by name."""
    check_adapter_file(folder)
    try:
        return import_peft().load_peft_weights(str(folder), device=device)
    except Exception as error:
        raise ConfigError(f"Cannot open the adapter in {folder}: {error}") from error


def weights_of(model: Any, adapter: str | None = None) -> dict[str, Tensor]:
    """Returns the weights of an adapter by their names in files."""
    name = adapter or model.active_adapter
    return import_peft().get_peft_model_state_dict(
        model, adapter_name=name, save_embedding_layers=False
    )


def add_adapter(model: Any, lora: LoraSettings, seed: int = 0) -> Any:
    """Returns the model with a new LoRA adapter. All other weights are frozen.

    Args:
        model: a `transformers` causal LM.
        lora: settings of the adapter.
        seed: seed of the adapter's initial weights.

    Raises:
        ConfigError: if the adapter does not fit the model or the memory.
    """
    peft = import_peft()
    known = peft.utils.TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING
    targets = lora_targets(model, lora.targets, known)
    settings = peft.LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,
        lora_dropout=0.0,
        target_modules=targets.modules,
        exclude_modules=targets.excluded,
        task_type="CAUSAL_LM",
    )
    try:
        with around_peft():
            wrapped = peft.get_peft_model(model, settings)
    except ValueError as error:
        raise ConfigError(
            f"The LoRA adapter does not fit {type(model).__name__}: {error} "
            "Name the linear layers to adapt with --lora-targets."
        ) from error
    except RuntimeError as error:
        raise ConfigError(
            f"The LoRA adapter of rank {lora.rank} cannot be made: ranks beyond the hidden size "
            f"of the model add nothing and may exceed the memory. Usual ranks are 8 to 128. {error}"
        ) from error
    base = settings.base_model_name_or_path
    if base and Path(base).is_dir():  # the adapter may be opened from another working directory
        settings.base_model_name_or_path = str(Path(base).resolve())
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in wrapped.named_parameters():
        if "lora_A" in name and parameter.dim() == 2:
            fresh = torch.empty(parameter.shape)
            nn.init.kaiming_uniform_(fresh, a=math.sqrt(5), generator=generator)
            parameter.data.copy_(fresh)
    match_base(wrapped)
    return wrapped


def match_base(model: Any) -> None:
    """Gives the adapters of a model in bfloat16 its data type.

    `peft` makes them float32. Each layer then converts its input, keeps the copy for the backward
    pass, and multiplies by the adapter in float32. The optimiser has weights in float32
    (`AdamW`). In float16, where gradients underflow, adapters stay as they are.
    """
    if model.get_input_embeddings().weight.dtype != torch.bfloat16:
        return
    for name, parameter in model.named_parameters():
        if "lora_" in name:
            parameter.data = parameter.data.to(torch.bfloat16)


def copy_adapter(model: Any) -> None:
    """Copies the weights of a model's adapter to a second adapter, the frozen reference.

    Args:
        model: a `peft` model.

    Raises:
        ConfigError: if the adapter has biases, which belong to the base model.
    """
    peft, trained = import_peft(), model.active_adapter
    bias = getattr(model.peft_config[trained], "bias", "none")
    if bias != "none":
        raise ConfigError(
            f"The reference policy of an adapter needs bias = 'none', got {bias!r}, which trains "
            "biases of the base model: use another adapter, or settings without a reference policy."
        )
    _add_reference(model, model.peft_config[trained])
    weights = peft.get_peft_model_state_dict(model, adapter_name=trained)
    peft.set_peft_model_state_dict(model, weights, adapter_name=REFERENCE)
    model.set_requires_grad(REFERENCE, False)


def _add_reference(model: Any, settings: Any) -> None:
    """Adds the reference adapter, whose weights are still to be loaded, if there is none."""
    if REFERENCE in model.peft_config:
        return
    if hasattr(settings, "init_lora_weights"):
        # The usual initialisation leaves the base model alone, unlike that of PiSSA or OLoRA.
        settings = replace(settings, init_lora_weights=True)
    with torch.random.fork_rng():
        model.add_adapter(REFERENCE, settings)
    drop_nothing(model)
    match_base(model)


def rename_adapter(weights: dict[str, Tensor], adapter: str, name: str) -> dict[str, Tensor]:
    """Returns the weights of an adapter under the names that they have in another adapter."""
    old, new = f".{adapter}.", f".{name}."
    return {f"{k}.".replace(old, new)[:-1]: v for k, v in weights.items() if old in f"{k}."}


def load_reference_adapter(model: Any, folder: str | Path) -> None:
    """Loads the adapter in a folder as the frozen reference.

    Args:
        model: a `peft` model.
        folder: an adapter folder.
    """
    peft, weights = import_peft(), weights_in(folder, str(model.device))
    _add_reference(model, peft.PeftConfig.from_pretrained(str(folder)))
    check_adapter(weights, weights_of(model, REFERENCE), folder)
    peft.set_peft_model_state_dict(model, weights, adapter_name=REFERENCE)
    model.set_requires_grad(REFERENCE, False)


def load_adapter(model: Any, folder: str | Path) -> None:
    """Replaces the weights of a model's adapter by those in a folder.

    Args:
        model: a `peft` model.
        folder: an adapter folder.

    Raises:
        ConfigError: if it holds no adapter of the same base model, shape and scale.
    """
    peft, active = import_peft(), model.active_adapter
    try:
        found = peft.PeftConfig.from_pretrained(str(folder))
    except Exception as error:
        raise ConfigError(f"Cannot open the adapter in {folder}: {error}") from error
    weights = weights_in(folder, str(model.device))
    settings = model.peft_config[active]
    base = settings.base_model_name_or_path
    other = found.base_model_name_or_path
    if other != base and find_base(other, Path(folder)) != find_base(base, Path(folder)):
        raise ConfigError(
            f"The adapter in {folder} is one of the base model {other!r}, and the adapters of the "
            f"other roles are of {base!r}: roles share one base model."
        )
    own = weights_of(model)
    if {k: v.shape for k, v in weights.items()} != {k: v.shape for k, v in own.items()}:
        raise ConfigError(
            f"The adapter in {folder} has another rank or other modules than those of the other "
            "roles: roles share one shape of adapter."
        )
    for name in ("peft_type", "lora_alpha", "alpha_pattern", "use_rslora"):  # not in the weights
        given, expected = getattr(found, name, None), getattr(settings, name, None)
        if given != expected:
            raise ConfigError(
                f"The adapter in {folder} has {name} = {given!r}, and those of the other roles "
                f"have {expected!r}: roles share the kind and the scale of their adapters."
            )
    peft.set_peft_model_state_dict(model, weights, adapter_name=active)


@contextmanager
def reference_adapter(model: Any) -> Iterator[None]:
    """Context manager that activates the reference adapter. Gradients are not computed."""
    trained = model.active_adapter
    parameters = [p for p in model.parameters() if p.requires_grad]
    model.set_adapter(REFERENCE, inference_mode=True)
    try:
        with torch.no_grad():
            yield
    finally:
        model.set_adapter(trained, inference_mode=True)
        for parameter in parameters:  # peft freezes adapters that are not active
            parameter.requires_grad_(True)


def changes(model: Any) -> Callable[[str], bool]:
    """Returns whether training changes a weight of a `peft` model, as a function of its name.

    These are the weights of its adapters, but for the reference, which have their names in their
    own, and biases of the base model if an adapter trains them.

    Args:
        model: a `peft` model.
    """
    names = [f".{name}." for name in model.peft_config if name != REFERENCE]
    trained = getattr(model.peft_config[model.active_adapter], "bias", "none")
    bias = {"all": "bias", "lora_only": ".base_layer.bias"}.get(trained)
    return lambda weight: (
        any(name in f"{weight}." for name in names) or bool(bias and weight.endswith(bias))
    )


def drop_nothing(model: nn.Module) -> None:
    """Sets dropout to 0. New layers, such as those of a second adapter, are in training mode."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0


@contextmanager
def around_peft() -> Iterator[None]:
    """Context manager that makes an adapter without a change of the global random generator."""
    with torch.random.fork_rng(), warnings.catch_warnings():
        # GPT-2's weights are stored transposed. peft handles this and warns about it.
        warnings.filterwarnings("ignore", "fan_in_fan_out")
        # peft reads an attribute that newer versions of transformers call otherwise.
        warnings.filterwarnings("ignore", "`is_gradient_checkpointing` is deprecated")
        yield


def import_peft() -> Any:
    """Returns the module `peft`.

    Raises:
        MissingExtraError: if it is not installed.
    """
    try:
        import peft
    except ImportError as error:
        raise MissingExtraError("A LoRA adapter", "train", "peft") from error
    return peft
