"""What a run is put together from, fresh or from a checkpoint, and how it is written down."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import gather_object
from torch import nn
from transformers.utils import logging as transformers_logging

from agentgym.errors import ConfigError
from agentgym.serialization import from_json
from agentgym.trainers import checkpoint
from agentgym.trainers.agent import PolicyAgent
from agentgym.trainers.config import FREE_ON_RESUME, TrainConfig
from agentgym.trainers.learner import Learner
from agentgym.trainers.policy import Policy
from agentgym.trainers.tiny import SIZES, tiny_policy
from agentgym.trainers.update import Updater


@dataclass
class Progress:
    """How far a run is: all the state there is besides weights and optimiser.

    Attributes:
        iteration: finished rounds.
        env_steps: turns played.
        episodes: episodes played.
        tokens: action tokens generated.
        evaluated: the round after which the policy was last evaluated; -1: never.
        best_iteration: the round of the best evaluation; -1: none.
        best_reward: its mean reward; None: none.
        first: the evaluation before the first round, as JSON.
        last: the latest evaluation.
    """

    iteration: int = 0
    env_steps: int = 0
    episodes: int = 0
    tokens: int = 0
    evaluated: int = -1
    best_iteration: int = -1
    best_reward: float | None = None
    first: dict[str, Any] | None = None
    last: dict[str, Any] | None = None


def make_accelerator(config: TrainConfig) -> Accelerator:
    """Returns what places tensors, on the device that was asked for.

    Raises:
        ConfigError: if there is no such device.
    """
    accelerator = Accelerator(cpu=config.device == "cpu", mixed_precision=config.mixed_precision)
    if config.device == "cuda" and accelerator.device.type != "cuda":
        raise ConfigError(
            f"device is 'cuda', but PyTorch {torch.__version__} sees no such GPU here: use 'auto' "
            "or 'cpu', or install a build of PyTorch for your GPU."
        )
    return accelerator


def open_folder(accelerator: Accelerator, recipe: str, config: TrainConfig) -> checkpoint.RunFolder:
    """Opens the run's folder: the main process locks and checks it, others only read.

    Raises:
        CheckpointError: in every process, if the main one could not.
        ConfigError: if its name cannot be read.
    """
    names = {"recipe": recipe, "env": config.env_id.rpartition("/")[2], "seed": config.seed}
    try:
        name = config.run_dir.format(**names)
    except (LookupError, ValueError) as error:
        raise ConfigError(
            f"run_dir = {config.run_dir!r}: braces may hold recipe, env or seed."
        ) from error
    errors: list[Exception | None] = []
    folder = None
    if accelerator.is_main_process:
        free = set(FREE_ON_RESUME)
        if config.lr_schedule == "linear":
            free -= {"iterations"}  # the schedule depends on it
        errors = [None]
        try:
            folder = checkpoint.RunFolder(name, resume=config.resume)
            folder.record_config(recipe, config.as_dict(), free)
            folder.set_damaged_aside()
        except Exception as error:
            errors = [error]
    if accelerator.num_processes > 1:
        errors = gather_object(errors)
    if errors[0] is not None:
        if folder is not None:
            folder.close()
        raise errors[0]
    return folder or checkpoint.RunFolder(name, lock=False)


def load_progress(start: Path | None) -> Progress:
    """Returns how far a checkpoint is; without one, not at all."""
    if start is None:
        return Progress()
    file = start / "state.json"
    with checkpoint.loading(file):
        state = json.loads(file.read_text(encoding="utf-8"))
        return from_json(Progress, state["progress"])


def load_policy(
    accelerator: Accelerator, config: TrainConfig, folder: checkpoint.RunFolder, start: Path | None
) -> Policy:
    """Loads the policy of a checkpoint, or the one that the settings name."""
    options: dict[str, Any] = {
        "dtype": config.dtype,
        "device": accelerator.device,
        "trust_remote_code": config.trust_remote_code,
    }
    transformers_logging.disable_progress_bar()
    if start is not None:
        with checkpoint.loading(start / "policy"):
            policy = Policy.load(start / "policy", **options)
        if not (folder.path / "reference").exists():
            return policy
        reference = Policy.load(folder.path / "reference", **options)
        reference.freeze_reference()
        with checkpoint.loading(start / "policy"):
            reference.model.load_state_dict(policy.model.state_dict())
        return reference
    if config.model not in SIZES:
        return Policy.load(config.model, lora=config.lora(), **options)
    if accelerator.is_main_process:
        with checkpoint.writing(folder.path / "model"):
            tiny_policy(
                config.env_id,
                seed=config.seed,
                size=config.model,
                folder=folder.path / "model",
                env_kwargs=config.env_kwargs,
            )
    accelerator.wait_for_everyone()
    return Policy.load(folder.path / "model", **options)


def parameter_group(module: nn.Module, lr: float) -> dict[str, Any]:
    """Returns the trainable parameters of a module as a group of an optimiser."""
    return {"params": [p for p in module.parameters() if p.requires_grad], "lr": lr}


def build_updater(
    accelerator: Accelerator,
    config: TrainConfig,
    policy: Policy,
    critic: nn.Module | None,
    start: Path | None,
) -> Updater:
    """Makes learner and optimiser; restores critic and optimiser from a checkpoint."""
    groups = [parameter_group(policy, config.lr)]
    if critic is not None:
        critic.to(accelerator.device)
        groups.append(parameter_group(critic, config.critic_lr))
    optimizer: Any = torch.optim.AdamW(groups, eps=1e-5, weight_decay=config.weight_decay)
    saved: dict[str, Any] = {}
    if start is not None:
        saved = _load(start / "optimizer.pt")
        with checkpoint.loading(start / "optimizer.pt"):
            optimizer.load_state_dict(saved["optimizer"])
        if critic is not None:
            state = _load(start / "critic.pt")
            with checkpoint.loading(start / "critic.pt"):
                critic.load_state_dict(state)
    learner, optimizer = accelerator.prepare(Learner(policy, critic), optimizer)
    if accelerator.scaler is not None and "scaler" in saved:
        accelerator.scaler.load_state_dict(saved["scaler"])
    return Updater(accelerator, learner, optimizer, config)


def load_experience(start: Path) -> dict[str, Any]:
    """Returns what a checkpoint remembers of `Experience` and `Curriculum`."""
    return _load(start / "experience.pt")


def _load(file: Path) -> dict[str, Any]:
    """Returns tensors and plain values from a file of a checkpoint."""
    with checkpoint.loading(file):
        saved = torch.load(file, map_location="cpu", weights_only=True)
        if not isinstance(saved, dict):
            raise TypeError(f"expected a dict, got {type(saved).__name__}")
        return saved


def write_checkpoint(
    folder: Path,
    config: TrainConfig,
    updater: Updater,
    agent: PolicyAgent,
    experience: dict[str, Any],
    progress: Progress,
) -> None:
    """Writes everything that a run needs to go on."""
    write_policy(folder / "policy", agent, config, progress)
    critic = updater.module.critic
    if critic is not None:
        torch.save(critic.state_dict(), folder / "critic.pt")
    saved = {"optimizer": updater.optimizer.state_dict()}
    if updater.accelerator.scaler is not None:
        saved["scaler"] = updater.accelerator.scaler.state_dict()
    torch.save(saved, folder / "optimizer.pt")
    torch.save(experience, folder / "experience.pt")
    text = json.dumps({"progress": asdict(progress), "versions": checkpoint.versions()})
    (folder / "state.json").write_text(text + "\n", encoding="utf-8")


def write_policy(folder: Path, agent: PolicyAgent, config: TrainConfig, progress: Progress) -> None:
    """Writes the policy with everything needed to act."""
    agent.save(
        folder,
        env_id=config.env_id,
        env_kwargs=config.env_kwargs,
        round=progress.iteration,
    )
