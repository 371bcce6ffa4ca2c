"""Runs in parallel on one GPU: each has a share of its memory, in which it must fit."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping

from agentgym.errors import ConfigError
from agentgym.trainers.run.least_memory import GIB, Need, need_of, remedy
from agentgym.trainers.settings.config import TrainConfig
from agentgym.trainers.system.gpu_memory import Card, find_card


def share_card(jobs: int, configs: Mapping[str, TrainConfig]) -> dict[str, str]:
    """Returns environment variables that hold each of some runs to its share of a GPU.

    Args:
        jobs: runs in parallel.
        configs: settings of the runs by their names.

    Raises:
        ConfigError: if one of them does not fit into its share, with what would.
    """
    on_gpu = {name: config for name, config in configs.items() if config.model.device != "cpu"}
    jobs = min(jobs, len(on_gpu))
    if not on_gpu or (card := _card()) is None:
        return {}
    known: dict[str, Need] = {}
    for name, config in on_gpu.items():
        key = repr((config.kind, config.model, config.loss.kl_coef > 0))
        known[key] = need = known.get(key) or need_of(config)
        if need.total > card.share(jobs):
            raise ConfigError(_too_large(name, config, need, jobs, card))
    return card.variables(jobs, os.environ) if jobs > 1 else {}


def _card() -> Card | None:
    try:
        return find_card()
    except subprocess.CalledProcessError as error:
        reason = (error.stderr or "").strip().rpartition("\n")[2]
        raise ConfigError(
            f"The GPU does not answer ({reason}). Free it, or train with --device cpu."
        ) from error


def _too_large(name: str, config: TrainConfig, need: Need, jobs: int, card: Card) -> str:
    """Returns why a run does not fit beside others, and what would fit."""
    fitting = [n for n in range(1, jobs) if need.total <= card.share(n)]
    instead = f"Use --jobs {fitting[-1]}." if fitting else remedy(config, card.share(jobs))
    return (
        f"{name} needs at least {need.total / GIB:.1f} GiB of GPU memory ({need}), and each of "
        f"{jobs} runs in parallel has {card.share(jobs) / GIB:.1f} of the {card.free / GIB:.1f} "
        f"GiB that are free on {card.name}. {instead}"
    )
