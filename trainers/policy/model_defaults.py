"""Defaults by kind of model: settings whose default is None are resolved here.

A new decoder ("nano", "tiny", "small", "reader") has up to some millions of parameters and learns
with large steps in float32. A loaded language model needs smaller steps, longer actions and less
memory.

Sources of the values for loaded models: learning rates of 1e-6 in verl-agent (arXiv 2505.10978) and
of 10 times as much for adapters in "LoRA Without Regret" (Schulman et al., 2025). AdamW's epsilon
is that of PyTorch: with gradients clipped to norm 1, an entry of the gradient of a model with 7e9
parameters is about 1e-5.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any, Literal

from agentgym.errors import BaseModelError, ConfigError, did_you_mean
from agentgym.trainers.policy.base_folder import find_base

Kind = Literal["new", "loaded", "adapter"]
NEW_MODELS = ("nano", "tiny", "small", "reader")
NEW_MODEL_KEY = "agentgym_new_model"
"""Entry of the config.json of a new decoder. A saved one keeps the defaults of new models."""

DEFAULTS: dict[str, dict[Kind, Any]] = {
    "dtype": {"new": "float32", "loaded": "bfloat16", "adapter": "bfloat16"},
    "max_new_tokens": {"new": 32, "loaded": 256, "adapter": 256},
    "lr": {"new": 3e-4, "loaded": 1e-6, "adapter": 1e-5},
    "adam_eps": {"new": 1e-5, "loaded": 1e-8, "adapter": 1e-8},
    "critic_lr": {"new": 1e-3, "loaded": 1e-4, "adapter": 1e-4},
    "bc_lr": {"new": 1e-3, "loaded": 1e-5, "adapter": 1e-4},
    "save_minutes": {"new": 0.0, "loaded": 10.0, "adapter": 10.0},
}
"""Defaults of settings by the kind of model that is trained."""


def kind_of(model: str, lora_rank: int = 0) -> Kind:
    """Returns the kind of a model: new, loaded, or loaded and trained with an adapter.

    Args:
        model: the setting `model`: a size, a Hugging Face id or a folder.
        lora_rank: rank of a new adapter (0: none).
    """
    if model in NEW_MODELS:
        return "new"
    model = next(map(str, sorted(Path(model).glob("roles/*"))), model)  # one policy for each role
    adapter = _entries(Path(model) / "adapter_config.json")
    base = str(adapter.get("base_model_name_or_path") or model)
    if adapter:
        with contextlib.suppress(BaseModelError):  # raised when the adapter is loaded
            base = find_base(base, Path(model))
    if _entries(Path(base) / "config.json").get(NEW_MODEL_KEY):
        return "new"
    return "adapter" if lora_rank or adapter else "loaded"


def is_adapter(model: str | Path) -> bool:
    """Returns whether a folder holds an adapter, or one for each role."""
    folder = next(iter(sorted(Path(model).glob("roles/*"))), Path(model))
    return (folder / "adapter_config.json").is_file()


def check_model_name(model: str) -> None:
    """Checks the setting `model` without loading anything.

    Ids of the hub without a slash, such as gpt2 and t5-small, begin like no name of a new model.

    Raises:
        ConfigError: for a folder that does not exist, or a misspelt name of a new model, which
            would be asked of the hub.
    """
    if model in NEW_MODELS or Path(model).is_dir():
        return
    # An id of the hub has at most one slash.
    if model.startswith((".", "/", "~")) or len(Path(model).parts) > 2:
        raise ConfigError(
            f"There is no model folder {model}. Give a folder written by save_pretrained, such as "
            "the folder `policy` of a training run, or an id of the Hugging Face hub."
        )
    if "/" in model:
        return
    if hint := did_you_mean(model.partition("-")[0], NEW_MODELS):
        raise ConfigError(f"There is no model {model!r}.{hint}")


def defaults_of(kind: Kind, *, low_precision: bool) -> dict[str, Any]:
    """Returns the defaults of a kind of model by the names of the settings.

    Args:
        kind: the kind of model.
        low_precision: whether weights may be in bfloat16. If False, they are in float32.
    """
    found = {name: values[kind] for name, values in DEFAULTS.items()}
    return found if low_precision else found | {"dtype": "float32"}


def bfloat16_is_native(device: str) -> bool:
    """Returns whether the device of the setting `device` computes in bfloat16 without emulation."""
    if device == "cpu":
        return False
    import torch

    return torch.cuda.is_available() and torch.cuda.is_bf16_supported(including_emulation=False)


def _entries(file: Path) -> dict[str, Any]:
    """Returns the entries of a JSON file, none if there is no such file or it is damaged."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
