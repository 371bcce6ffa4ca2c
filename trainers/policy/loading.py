"""Model loading: any causal LM of the Hugging Face hub or a folder, with or without LoRA."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import torch
from torch import nn

from agentgym.errors import BaseModelError, ConfigError
from agentgym.trainers.policy.adapters import (
    add_adapter,
    around_peft,
    import_peft,
    match_base,
    weights_in,
    weights_of,
)
from agentgym.trainers.policy.base_folder import find_base
from agentgym.trainers.policy.hub_cache import cache_first
from agentgym.trainers.policy.lora import LoraSettings
from agentgym.trainers.policy.model_config import without_dropout
from agentgym.trainers.policy.model_defaults import NEW_MODELS, check_model_name
from agentgym.trainers.policy.model_files import (
    check_adapter,
    load_tokenizer,
    load_weights,
)

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
    tokenizer = _tokenizer(name, trust)
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
    _check_rows(model, tokenizer, name)
    return model, tokenizer


def _tokenizer(name: str, trust: bool) -> Any:
    """Returns the tokenizer of a model, or of an adapter's folder."""
    try:
        return load_tokenizer(name, trust)
    except Exception as error:
        raise ConfigError(
            f"The model {name!r} has no tokenizer that can be used, which is needed to encode "
            "text. Install the package that is named here, or save a tokenizer beside the model "
            f"with tokenizer.save_pretrained. ({error})"
        ) from error


def _check_rows(model: Any, tokenizer: Any, name: str) -> None:
    """Raises ConfigError if a tokenizer is not the model's."""
    rows = len(model.get_input_embeddings().weight)
    if len(tokenizer) > 2 * rows:  # some tokens more than embeddings are common
        raise ConfigError(
            f"The tokenizer of {name!r} has {len(tokenizer)} tokens, but the model has only {rows} "
            "embeddings. They do not belong together."
        )


def _load_adapter(folder: Path, dtype: str, trust: bool) -> tuple[Any, Any]:
    peft = import_peft()
    try:
        settings = peft.PeftConfig.from_pretrained(str(folder))
    except Exception as error:
        raise ConfigError(f"Cannot open the adapter in {folder}: {error}") from error
    base = find_base(settings.base_model_name_or_path, folder, warn=True)
    weights = weights_in(folder)
    try:
        model, tokenizer = _load_base(base, dtype, trust)
    except ConfigError as error:
        raise BaseModelError(
            f"The base model of the adapter in {folder} cannot be opened. The adapter itself may "
            f"be intact. {error}"
        ) from error
    settings.base_model_name_or_path = base
    try:
        with around_peft(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Found missing adapter keys")  # raised below
            adapted = peft.PeftModel.from_pretrained(
                model, str(folder), is_trainable=True, config=settings
            )
    except Exception as error:
        raise ConfigError(f"Cannot open the adapter in {folder}: {error}") from error
    check_adapter(weights, weights_of(adapted), folder)
    match_base(adapted)
    if (folder / "tokenizer_config.json").is_file():  # with the chat template that it learned
        tokenizer = _tokenizer(str(folder), trust)
        _check_rows(model, tokenizer, str(folder))
    return adapted, tokenizer


def save_model(model: Any, folder: str | Path) -> None:
    """Writes a model, or its active adapter, to a folder."""
    options: dict[str, Any] = {}
    if hasattr(model, "disable_adapter"):
        # Without embeddings, which are never resized: peft would ask the hub for their size.
        options = {"selected_adapters": [model.active_adapter], "save_embedding_layers": False}
    model.save_pretrained(str(folder), **options)


@torch.no_grad()
def align_memory(model: nn.Module) -> None:
    """Moves weights on the CPU to memory that PyTorch allocates, at multiples of 64 bytes.

    Files of weights are mapped into memory, where addresses depend on the header of the file. The
    last bits of products depend on them, so that a model would compute other numbers than its copy.
    """
    for tensor in (*model.parameters(), *model.buffers()):
        if tensor.device.type == "cpu" and tensor.data_ptr() % 64:
            tensor.data = tensor.detach().clone(memory_format=torch.preserve_format)


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
