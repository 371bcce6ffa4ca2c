"""Small random models of every architecture that `transformers` has for causal language models."""

from __future__ import annotations

from typing import Any

import torch
from transformers import CONFIG_MAPPING, AutoModelForCausalLM
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

ARCHITECTURES = tuple(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)
VOCABULARY = 300
LARGEST = 3_000_000
"""Most parameters of a model that is still small."""

SIZES: dict[str, Any] = {
    **dict.fromkeys(["vocab_size"], VOCABULARY),
    **dict.fromkeys(
        ["hidden_size", "n_embd", "d_model", "dim", "embedding_size", "word_embed_proj_dim"], 32
    ),
    **dict.fromkeys(["num_hidden_layers", "n_layer", "num_layers", "n_layers"], 4),
    **dict.fromkeys(["decoder_layers", "encoder_layers"], 2),
    **dict.fromkeys(["num_attention_heads", "n_head", "num_heads", "n_heads"], 4),
    **dict.fromkeys(["decoder_attention_heads", "encoder_attention_heads"], 4),
    **dict.fromkeys(["num_key_value_heads", "linear_num_key_heads"], 2),
    **dict.fromkeys(["intermediate_size", "n_inner", "decoder_ffn_dim", "encoder_ffn_dim"], 48),
    **dict.fromkeys(["ffn_hidden_size", "d_ff", "ffn_dim", "dff"], 48),
    **dict.fromkeys(["dense_intermediate_size", "shared_intermediate_size"], 48),
    **dict.fromkeys(["moe_intermediate_size", "shared_expert_intermediate_size"], 16),
    **dict.fromkeys(["num_experts", "num_local_experts", "n_routed_experts"], 4),
    **dict.fromkeys(["num_experts_per_tok", "moe_top_k", "moe_k"], 2),
    "moe_num_experts": 4,
    **dict.fromkeys(["max_position_embeddings", "n_positions", "n_ctx"], 256),
    **dict.fromkeys(["q_lora_rank", "kv_lora_rank", "qk_head_dim"], 16),
    **dict.fromkeys(["head_dim", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"], 8),
    **dict.fromkeys(["sliding_window", "window_size", "attention_window"], 16),
    **dict.fromkeys(["attention_chunk_size", "chunk_size", "mamba_chunk_size"], 16),
    **dict.fromkeys(["mamba_n_heads", "n_mamba_heads", "linear_num_value_heads"], 4),
    **dict.fromkeys(["mamba_d_state", "state_size", "ssm_state_size", "mamba_head_dim"], 8),
    **dict.fromkeys(["linear_key_head_dim", "linear_value_head_dim", "mamba_num_heads"], 8),
    "mamba_d_head": 16,
    **dict.fromkeys(["linear_head_dim", "swa_head_dim"], 8),
    **{"swa_num_attention_heads": 4, "swa_num_key_value_heads": 2, "index_n_heads": 4},
    **{"linear_num_heads": 4, "o_lora_rank": 16},
    **dict.fromkeys(["n_groups", "n_group", "topk_group"], 1),
    "pad_token_id": 0,
    "eos_token_id": 1,
    "bos_token_id": 2,
}
"""Small values of settings, by the names that architectures have for them."""

SPECIAL: dict[str, dict[str, Any]] = {
    "bailing_hybrid": {"layer_group_size": 2},
    "bamba": {"attn_layer_indices": [1]},
    "codegen": {"rotary_dim": 4},
    "dots1": {"n_shared_experts": 1},
    "falcon": {"head_dim": None},
    "falcon_h1": {"mamba_d_ssm": 64},
    "gpt_neo": {"attention_types": [[["global", "local"], 2]]},
    "gptj": {"rotary_dim": 4},
    "granitemoehybrid": {"layer_types": ["mamba", "attention", "mamba", "attention"]},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1, "use_mamba_kernels": False},
    "mamba2": {"num_heads": 8, "head_dim": 8, "expand": 2},
    "modernbert-decoder": {"cls_token_id": 2, "sep_token_id": 1},
    "roc_bert": {"pronunciation_vocab_size": 30, "shape_vocab_size": 30},
    "zamba2": {
        "layers_block_type": ["mamba", "hybrid", "mamba", "hybrid"],
        "hybrid_layer_ids": [1, 3],
        "mamba_headdim": 16,
        "num_mem_blocks": 1,
    },
    "zaya": {"num_experts_per_tok": 1},
}
"""Settings of single architectures. None: the default."""


class TooLarge(Exception):
    """An architecture cannot be made small by `SIZES`."""


def small_config(kind: str) -> Any:
    """Returns the configuration of a small model. See `small_model`."""
    config_class: Any = CONFIG_MAPPING[kind]
    config = config_class(**_sizes(config_class(), SPECIAL.get(kind, {})))
    with torch.device("meta"):
        count = sum(p.numel() for p in AutoModelForCausalLM.from_config(config).parameters())
    if count > LARGEST:
        raise TooLarge(f"{count} parameters")
    return config


def small_model(kind: str, seed: int = 0) -> Any:
    """Returns a small random model with large weights, whose distributions are far from uniform.

    Args:
        kind: the `model_type`.
        seed: seed of the weights.

    Raises:
        TooLarge: if it has more than `LARGEST` parameters.
        Exception: anything that `transformers` raises if the sizes do not fit together.
    """
    config = small_config(kind)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(config)
        for parameter in model.parameters():
            if parameter.dim() >= 2:
                parameter.data.normal_(0, min(parameter.shape[-2:]) ** -0.5)
    return model.eval()


def _sizes(default: Any, special: dict[str, Any]) -> dict[str, Any]:
    """Returns the small values of the settings that a configuration has, and those of its parts."""
    sizes = {name: value for name, value in SIZES.items() if hasattr(default, name)}
    for name in getattr(type(default), "sub_configs", {}):
        if (part := getattr(default, name, None)) is not None:
            sizes[name] = _sizes(part, {})
    if "kv_lora_rank" in sizes:  # multi-head latent attention
        sizes["num_key_value_heads"] = 4
        sizes.pop("head_dim", None)
    return {name: value for name, value in (sizes | special).items() if value is not None}
