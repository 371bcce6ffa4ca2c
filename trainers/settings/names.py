"""Names of settings: older ones, which are still read, and those of other libraries."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from agentgym.errors import did_you_mean

RENAMED: dict[str, tuple[str, dict[Any, Any]]] = {
    "critic_trunk": ("critic_backbone", {"policy": "shared", "own": "separate"}),
    "critic_rounds": ("critic_window", {}),
    "trunk_lr": ("backbone_lr", {}),
    "clip_gradient": ("surrogate", {True: "aepo", False: "ppo"}),
    "eval_nashconv": ("eval_exploitability", {True: 2000, False: 0}),
}
"""Older names of settings, with the new names and the new names of values. Read until 0.1.0."""

FAMILIAR: dict[str, tuple[str, ...]] = {
    # Stable-Baselines3
    "batch_size": ("episodes_per_iteration",),
    "clip_range": ("clip",),
    "clip_range_vf": ("value_clip",),
    "ent_coef": ("entropy_coef",),
    "env": ("env_id",),
    "gae_lambda": ("lambda_turn", "lambda_token"),
    "learning_rate": ("lr",),
    "n_envs": ("num_envs",),
    "n_epochs": ("epochs",),
    "n_steps": ("episodes_per_iteration",),
    "normalize_advantage": ("normalize_advantages",),
    "tensorboard_log": ("log_with",),
    "total_timesteps": ("env_steps",),
    "verbose": ("quiet",),
    "vf_coef": ("value_coef",),
    # TRL and transformers
    "adam_beta1": ("adam_betas",),
    "adam_beta2": ("adam_betas",),
    "adam_epsilon": ("adam_eps",),
    "beta": ("kl_coef",),
    "bf16": ("mixed_precision",),
    "cliprange": ("clip",),
    "cliprange_value": ("value_clip",),
    "delta": ("dual_clip",),
    "epsilon_high": ("clip_high",),
    "eval_steps": ("eval_every",),
    "fp16": ("mixed_precision",),
    "generation_batch_size": ("generation_batch",),
    "gradient_accumulation_steps": ("microbatch_tokens",),
    "importance_sampling_level": ("ratio",),
    "lam": ("lambda_turn", "lambda_token"),
    "logging_dir": ("run_dir",),
    "logging_steps": ("transcripts",),
    "lora_r": ("lora_rank",),
    "lora_target_modules": ("lora_targets",),
    "loss_type": ("aggregation",),
    "lr_scheduler_type": ("lr_schedule",),
    "max_completion_length": ("max_new_tokens",),
    "max_length": ("max_tokens",),
    "max_prompt_length": ("max_tokens",),
    "max_steps": ("iterations",),
    "model_name_or_path": ("model",),
    "num_generations": ("group_size",),
    "num_iterations": ("epochs",),
    "num_mini_batches": ("minibatches",),
    "num_ppo_epochs": ("epochs",),
    "num_train_epochs": ("epochs",),
    "output_dir": ("run_dir",),
    "per_device_train_batch_size": ("episodes_per_iteration",),
    "ref_model_sync_steps": ("kl_reference",),
    "report_to": ("log_with",),
    "response_length": ("max_new_tokens",),
    "resume_from_checkpoint": ("resume",),
    "save_steps": ("save_every",),
    "save_total_limit": ("keep",),
    "scale_rewards": ("scale", "normalize_advantages"),
    "sync_ref_model": ("kl_reference",),
    "torch_dtype": ("dtype",),
    "total_episodes": ("iterations",),
    "use_peft": ("lora_rank",),
    "use_vllm": ("engine",),
    "vllm_enable_sleep_mode": ("engine_sleep",),
    "vllm_gpu_memory_utilization": ("engine_memory",),
    "vllm_server_base_url": ("engine_url",),
    "warmup_steps": ("lr_warmup",),
}
"""Names in other libraries, with the settings that come closest, the first choice first."""


def with_new_names(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns settings with the new names of those that have an older one."""
    found = {}
    for name, value in settings.items():
        new, values = RENAMED.get(name, (name, {}))
        found[new] = values.get(value, value) if values and isinstance(value, str | bool) else value
    return found


def suggestion(name: str, known: Collection[str]) -> str:
    """Returns " Did you mean: ...?" for an unknown setting, or "" if none is close.

    Args:
        name: the unknown name.
        known: the settings that there are.
    """
    meant = next((each for each in FAMILIAR.get(name, ()) if each in known), None)
    return f" Did you mean: {meant}?" if meant else did_you_mean(name, known)
