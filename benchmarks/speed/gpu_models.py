"""Models of `gpu.py` with random weights, and the device that they run on."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import torch

from benchmarks.speed.memory import SIZES

# vLLM needs heads of 32 dimensions on a CPU.
TEST = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
        "num_attention_heads": 2, "num_key_value_heads": 1, "tie_word_embeddings": True,
        "vocab_size": 4096}  # fmt: skip
MODELS: dict[str, dict[str, Any]] = {"test": TEST, **SIZES}
"""The published Qwen2.5 configurations, and a small one for tests."""


def device() -> torch.device:
    """Returns the GPU if there is one."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def dtype() -> Literal["float32", "bfloat16"]:
    """Returns the data type of the weights: bfloat16 on a GPU."""
    return "bfloat16" if torch.cuda.is_available() else "float32"


def new_model(name: str) -> tuple[Any, Any]:
    """Returns a model with random weights on the device, and its tokenizer."""
    from transformers import AutoModelForCausalLM, Qwen2Config

    from agentgym.trainers.policy.tiny import played_texts, tiny_tokenizer

    tokenizer = tiny_tokenizer(played_texts("WebShop-v0", seed=0, episodes=8), 2048)
    config = Qwen2Config(
        **MODELS[name],
        max_position_embeddings=32_768 + 1024,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=tokenizer.bos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    with torch.random.fork_rng(), torch.device(device()):
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(config, dtype=getattr(torch, dtype()))
    return model, tokenizer


def write_model(name: str, folder: Path) -> None:
    """Writes a model with random weights and its tokenizer as a Hugging Face folder."""
    for part in new_model(name):
        part.save_pretrained(folder)


def gpu_name() -> str:
    """Returns the name of the GPU, or "CPU"."""
    return torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
