"""Model loading: any causal LM of the Hugging Face hub or a folder, with or without LoRA."""

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

from agentgym.errors import BaseModelError, ConfigError, MissingExtraError
from agentgym.trainers.policy.base_folder import find_base
from agentgym.trainers.policy.hub_cache import cache_first
from agentgym.trainers.policy.lora import LoraSettings
from agentgym.trainers.policy.lora_targets import lora_targets
from agentgym.trainers.policy.model_config import without_dropout
from agentgym.trainers.policy.model_defaults import NEW_MODELS, check_model_name
from agentgym.trainers.policy.model_files import (
    check_adapter,
    check_adapter_file,
    load_tokenizer,
    load_weights,
)

REFERENCE = "reference"
"""Name of the frozen adapter of the reference policy."""
DTYPES = ("float32", "bfloat16", "float16", "auto")


def load_model(
    name: str | Path,
    lora: LoraSettings | None,
    dtype: str,
    seed: int,
    trust_remote_code: bool = False,
) -> tuple[Any, Any]:
    """Returns a model and its tokenizer. See `Policy.load` for arguments and errors."""
    if dtype not in DTYPES:
        raise ConfigError(f"dtype must be one of {DTYPES}, got {dtype!r}.")
    check_model_name(str(name))
    folder = Path(name)
    if str(name) in NEW_MODELS and not folder.is_dir():
        raise ConfigError(
            f"{str(name)!r} is a size of new models, which are made for an environment: train with "
            f"--model {name}, or create one with tiny_policy(env_id, size={name!r}) of "
            "agentgym.trainers.policy.tiny."
        )
    if folder.is_dir() and (folder / "adapter_config.json").is_file():
        if lora is not None:
            raise ConfigError(
                f"{name} is an adapter already, and lora_rank = {lora.rank} asks for a new one: "
                "leave it out to train this one on, or merge this one into its base first "
                "(merge_and_unload of peft)."
            )
        return _load_adapter(folder, dtype, trust_remote_code)
    checkpoints = sorted(folder.glob("checkpoints/*/policy"), reverse=True)
    for place in (folder, folder / "policy", *checkpoints):
        if roles := sorted((place / "roles").glob("*")):
            raise ConfigError(
                f"{place} holds a policy for each role: name one, such as {roles[0]}, or this "
                "folder in training with roles 'separate' or 'adapters'."
            )
    for place in (folder / "policy", *checkpoints):
        if any((place / file).is_file() for file in ("config.json", "adapter_config.json")):
            raise ConfigError(f"{name} is a folder of a run. Its model is in {place}.")
    if folder.is_dir() and not (folder / "config.json").is_file():
        raise ConfigError(
            f"The folder {name} contains no model: expected a config.json in it "
            "(as written by save_pretrained)."
        )
    model, tokenizer = _load_base(str(name), dtype, trust_remote_code)
    return (model if lora is None else add_adapter(model, lora, seed)), tokenizer


@cache_first
def _load_base(name: str, dtype: str, trust: bool) -> tuple[Any, Any]:
    from transformers import AutoConfig

    # Files from elsewhere make transformers, tokenizers and safetensors raise nearly anything.
    try:
        # Without an explicit False, transformers asks on standard input whether to run the code.
        config = AutoConfig.from_pretrained(name, trust_remote_code=trust)
    except Exception as error:
        raise ConfigError(
            f"Cannot open the model {name!r}: expected 'nano', 'tiny', 'small' or 'reader', a "
            "folder written by save_pretrained, or the id of a causal language model on the "
            f"Hugging Face hub. ({error})"
        ) from error
    without_dropout(config)
    try:
        tokenizer = load_tokenizer(name, trust)
    except Exception as error:
        raise ConfigError(
            f"The model {name!r} has no tokenizer that can be used, which is needed to encode "
            "text. Install the package that is named here, or save a tokenizer beside the model "
            f"with tokenizer.save_pretrained. ({error})"
        ) from error
    try:
        model = load_weights(
            name,
            config=config,
            dtype="auto" if dtype == "auto" else getattr(torch, dtype),
            trust_remote_code=trust,
        )
    except ConfigError:
        raise
    except Exception as error:
        raise ConfigError(f"Cannot open {name!r} as a causal language model: {error}") from error
    rows = len(model.get_input_embeddings().weight)
    if len(tokenizer) > 2 * rows:  # some tokens more than embeddings are common
        raise ConfigError(
            f"The tokenizer of {name!r} has {len(tokenizer)} tokens, but the model has only {rows} "
            "embeddings. They do not belong together."
        )
    return model, tokenizer


def _load_adapter(folder: Path, dtype: str, trust: bool) -> tuple[Any, Any]:
    peft = _peft()
    try:
        settings = peft.PeftConfig.from_pretrained(str(folder))
    except Exception as error:
        raise ConfigError(f"Cannot open the adapter in {folder}: {error}") from error
    base = find_base(settings.base_model_name_or_path, folder, warn=True)
    weights = _weights(folder)
    try:
        model, tokenizer = _load_base(base, dtype, trust)
    except ConfigError as error:
        raise BaseModelError(
            f"The base model of the adapter in {folder} cannot be opened. The adapter itself may "
            f"be intact. {error}"
        ) from error
    settings.base_model_name_or_path = base
    try:
        with _around_peft(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Found missing adapter keys")  # raised below
            adapted = peft.PeftModel.from_pretrained(
                model, str(folder), is_trainable=True, config=settings
            )
    except Exception as error:
        raise ConfigError(f"Cannot open the adapter in {folder}: {error}") from error
    check_adapter(weights, _weights_of(adapted), folder)
    return adapted, tokenizer


def _weights(folder: str | Path, device: str = "cpu") -> dict[str, Tensor]:
    """Returns the weights in an adapter's folder by name."""
    check_adapter_file(folder)
    try:
        return _peft().load_peft_weights(str(folder), device=device)
    except Exception as error:
        raise ConfigError(f"Cannot open the adapter in {folder}: {error}") from error


def _weights_of(model: Any, adapter: str | None = None) -> dict[str, Tensor]:
    """Returns the weights of an adapter by their names in files."""
    name = adapter or model.active_adapter
    return _peft().get_peft_model_state_dict(model, adapter_name=name, save_embedding_layers=False)


def save_model(model: Any, folder: str | Path) -> None:
    """Writes a model, or its active adapter, to a folder."""
    options: dict[str, Any] = {}
    if hasattr(model, "disable_adapter"):
        # Without embeddings, which are never resized: peft would ask the hub for their size.
        options = {"selected_adapters": [model.active_adapter], "save_embedding_layers": False}
    model.save_pretrained(str(folder), **options)


def add_adapter(model: Any, lora: LoraSettings, seed: int = 0) -> Any:
    """Returns the model with a new LoRA adapter. All other weights are frozen.

    Args:
        model: a `transformers` causal LM.
        lora: settings of the adapter.
        seed: seed of the adapter's initial weights.

    Raises:
        ConfigError: if the adapter does not fit the model or the memory.
    """
    peft = _peft()
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
        with _around_peft():
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
    return wrapped


def copy_adapter(model: Any) -> None:
    """Copies the weights of a model's adapter to a second adapter, the frozen reference.

    Args:
        model: a `peft` model.

    Raises:
        ConfigError: if the adapter has biases, which belong to the base model.
    """
    peft, trained = _peft(), model.active_adapter
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
    peft, weights = _peft(), _weights(folder, str(model.device))
    _add_reference(model, peft.PeftConfig.from_pretrained(str(folder)))
    check_adapter(weights, _weights_of(model, REFERENCE), folder)
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
    peft, active = _peft(), model.active_adapter
    try:
        found = peft.PeftConfig.from_pretrained(str(folder))
    except Exception as error:
        raise ConfigError(f"Cannot open the adapter in {folder}: {error}") from error
    weights = _weights(folder, str(model.device))
    settings = model.peft_config[active]
    base = settings.base_model_name_or_path
    other = found.base_model_name_or_path
    if other != base and find_base(other, Path(folder)) != find_base(base, Path(folder)):
        raise ConfigError(
            f"The adapter in {folder} is one of the base model {other!r}, and the adapters of the "
            f"other roles are of {base!r}: roles share one base model."
        )
    own = _weights_of(model)
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


@torch.no_grad()
def align_memory(model: nn.Module) -> None:
    """Moves weights on the CPU to memory that PyTorch allocates, at multiples of 64 bytes.

    Files of weights are mapped into memory, where addresses depend on the header of the file. The
    last bits of products depend on them, so that a model would compute other numbers than its copy.
    """
    for tensor in (*model.parameters(), *model.buffers()):
        if tensor.device.type == "cpu" and tensor.data_ptr() % 64:
            tensor.data = tensor.detach().clone(memory_format=torch.preserve_format)


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


def base_model(model: Any) -> Any:
    """Returns the `transformers` model inside a `peft` model, or the model itself."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def stores_tensors(model: Any) -> bool:
    """Returns whether a model may keep tensors that it computes in a forward pass.

    Rotary embeddings of some kinds renew their frequencies when a context grows. Code that comes
    with a model is unknown.
    """
    kinds = [str(getattr(module, "rope_type", "")) for module in model.modules()]
    renews = any(name in kind for kind in kinds for name in ("dynamic", "longrope"))
    return renews or not type(model).__module__.startswith("transformers.")


@contextmanager
def _around_peft() -> Iterator[None]:
    """Context manager that makes an adapter without a change of the global random generator."""
    with torch.random.fork_rng(), warnings.catch_warnings():
        # GPT-2's weights are stored transposed. peft handles this and warns about it.
        warnings.filterwarnings("ignore", "fan_in_fan_out")
        # peft reads an attribute that newer versions of transformers call otherwise.
        warnings.filterwarnings("ignore", "`is_gradient_checkpointing` is deprecated")
        yield


def _peft() -> Any:
    try:
        import peft
    except ImportError as error:
        raise MissingExtraError("A LoRA adapter", "train", "peft") from error
    return peft
