"""Models without weights: their parameters have shapes and types and take no memory."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import torch

from agentgym.errors import ConfigError
from agentgym.trainers.policy.adapters import add_adapter, match_base
from agentgym.trainers.policy.base_folder import find_base
from agentgym.trainers.policy.hub_cache import cache_first
from agentgym.trainers.policy.lora import LoraSettings
from agentgym.trainers.policy.tiny import SIZES, decoder_config


def empty_model(
    name: str, lora: LoraSettings | None, dtype: str, trust_remote_code: bool = False
) -> Any:
    """Returns the model that `Policy.load` would load, on the device "meta".

    Args:
        name: a size of new models, which then has its largest vocabulary, a folder or a hub id.
        lora: settings of a new adapter.
        dtype: data type of the weights, or "auto".
        trust_remote_code: run Python code of the model folder.

    Raises:
        ConfigError: if the configuration cannot be opened.
    """
    name = next(map(str, sorted(Path(name).glob("roles/*"))), name)
    adapter = (Path(name) / "adapter_config.json").is_file()
    base, settings = _adapter(Path(name)) if adapter else (name, None)
    model = _without_weights(base, dtype, trust_remote_code)
    if lora is not None:
        return add_adapter(model, lora)
    if settings is None:
        return model
    import peft

    with warnings.catch_warnings(), torch.device("meta"):
        warnings.simplefilter("ignore")  # those of loading tell the same
        adapted = peft.get_peft_model(model, settings)
    match_base(adapted)
    return adapted


def _adapter(folder: Path) -> tuple[str, Any]:
    """Returns the name of the base of an adapter, and the adapter's settings."""
    import peft

    try:
        settings = peft.PeftConfig.from_pretrained(str(folder))
    except Exception as error:
        raise ConfigError(f"Cannot open the adapter in {folder}: {error}") from error
    settings.inference_mode = False
    return find_base(settings.base_model_name_or_path, folder), settings


def _without_weights(name: str, dtype: str, trust: bool) -> Any:
    from transformers import AutoModelForCausalLM

    if name in SIZES and not Path(name).is_dir():
        size = SIZES[name]
        config, trust = decoder_config(size, vocab_size=size.vocabulary), False
    else:
        config = _configuration(name, trust)
    known = getattr(config, "dtype", None) or torch.float32
    kind = known if dtype == "auto" else getattr(torch, dtype)
    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(config, dtype=kind, trust_remote_code=trust)


@cache_first
def _configuration(name: str, trust: bool) -> Any:
    from transformers import AutoConfig

    try:
        return AutoConfig.from_pretrained(name, trust_remote_code=trust)
    except Exception as error:  # files from elsewhere raise nearly anything
        raise ConfigError(f"Cannot open the configuration of model {name!r}: {error}") from error
