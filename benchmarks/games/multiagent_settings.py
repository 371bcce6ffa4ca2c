"""Settings of runs that several experiments or variants of the multi-agent benchmark share."""

from __future__ import annotations

from typing import Any

NANO: dict[str, Any] = {
    "model": "nano",
    "context": "current",
    "instructions": False,
    "constrain": True,
    "eval_episodes": 0,
    "transcripts": 0,
    "log_with": [],
    "save_every": 20,
    "device": "cpu",
    "threads": 1,
}
"""Settings of small decoders that play a game from nothing, on one core."""
CLONED: dict[str, Any] = {"bc_lr": 3e-3, "bc_batch_tokens": 4096}
"""Settings of behaviour cloning of small decoders."""
NOT_CLONED: dict[str, Any] = {
    "bc_demonstrations": 0,
    "bc_epochs": 10,
    "bc_lr": None,
    "bc_batch_tokens": None,
}
"""The defaults of settings of behaviour cloning, for a variant without it."""

POKER: dict[str, Any] = NANO | {
    "env_kwargs": {"hands": 1},
    "eval_temperature": 1.0,
    "episodes_per_iteration": 256,
    "num_envs": 256,
    "iterations": 150,
    "snapshot_every": 5,
    "epochs": 2,
    "lr": 3e-4,
    "lr_schedule": "linear",
    "entropy_coef": 0.05,
}
"""Settings of self-play in one hand of poker."""
SEEING: dict[str, Any] = {
    "opponents": ["mirror=1", "past:20=0"],
    "gamma": 1.0,
    "critic_sees": "all",
    "critic_backbone": "separate",
    "critic_window": 1,
    "normalize_advantages": "none",
}
"""Settings of self-play with a critic that sees all cards."""
CENTRAL: dict[str, Any] = SEEING | {
    "kl_coef": 0.5,
    "kl_reference": "moving:10",
    "entropy_coef": 0.01,
}
"""Such settings, close to a moving reference."""
ENTROPY: dict[str, Any] = SEEING | {
    "entropy_coef": 0.7,
    "lambda_turn": 0.5,
    "critic_epochs": 1,
    "lr": 5e-4,
    "iterations": 160,
}
"""Such settings with much entropy: the bonus of a uniform choice of two moves is half a chip."""

COOKS: dict[str, Any] = (
    NANO
    | CLONED
    | {
        "env_id": "Overcooked-Cooks-v0",
        "env_kwargs": {"kitchen": "A", "recipe": "tomato salad", "talk": False, "horizon": 60},
        "eval_temperature": 1.0,
        "bc_demonstrations": 40,
        "bc_epochs": 10,
        "episodes_per_iteration": 24,
        "num_envs": 24,
        "iterations": 100,
        "epochs": 2,
        "critic_detach": True,
        "critic_warmup": 3,
        "lr": 1e-3,
        "lr_schedule": "linear",
        "target_kl": 0.05,
    }
)
"""Settings of two cooks."""
COOK_VARIANTS: dict[str, dict[str, Any]] = {
    "cloned": {"opponents": "mirror", "iterations": 0},
    "both learn": {"opponents": "mirror"},
    "one learns, beside planner": {"opponents": "scripted:planner"},
    "one learns, beside clumsy": {"opponents": "scripted:clumsy"},
    "one cook alone": {"opponents": "scripted:lazy"},
}
"""The cooks that learn, and their partners."""
