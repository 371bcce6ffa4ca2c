"""Builds policy, critic and optimiser of a run, and writes and reads its checkpoints."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.tracking import LOGGER_TYPE_TO_CLASS, get_available_trackers
from accelerate.utils import gather_object
from torch import nn
from transformers.utils import logging as transformers_logging

from agentgym.errors import ConfigError, did_you_mean
from agentgym.trainers.config import FREE_ON_RESUME, TrainConfig
from agentgym.trainers.policy.engine import Engine
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy.roles import role_folder
from agentgym.trainers.policy.tiny import SIZES, tiny_policy
from agentgym.trainers.policy.vllm_engine import VLLMEngine
from agentgym.trainers.policy.vllm_server import VLLMServer
from agentgym.trainers.policy_agent.agent import PolicyAgent
from agentgym.trainers.policy_agent.role_agent import RoleAgent
from agentgym.trainers.run import checkpoint
from agentgym.trainers.run.environment import MakeEnv
from agentgym.trainers.update.learner import Learner
from agentgym.trainers.update.optimizer import AdamW
from agentgym.trainers.update.sharding import check_engine, load_optimizer, trained_copy
from agentgym.trainers.update.updater import Updater
from agentgym.utils.serialization import from_json


@dataclass
class RunState:
    """Counters and evaluations of a run.

    Attributes:
        iteration: finished iterations.
        env_steps: turns played.
        episodes: episodes played.
        tokens: action tokens generated.
        evaluated: the iteration after which the policy was last evaluated (-1: never).
        best_iteration: the iteration of the best evaluation (-1: none).
        best_reward: the mean reward of the best evaluation (None: none).
        first: the evaluation before the first iteration, as JSON.
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


def make_accelerator(config: TrainConfig, trackers: Iterable[Any] = ()) -> Accelerator:
    """Returns the accelerator for the device and the trackers of the settings.

    Raises:
        ConfigError: if there is no such device, a tracker is unknown or not installed, or the
            engine that accelerate was started with is not supported.
    """
    names = [name for name in config.run.log_with if name != "tensorboard"]  # RunLog writes it
    for name in names:
        if name not in LOGGER_TYPE_TO_CLASS:
            known = ", ".join(LOGGER_TYPE_TO_CLASS)
            hint = did_you_mean(name, LOGGER_TYPE_TO_CLASS)
            raise ConfigError(f"log_with: unknown tracker {name!r}.{hint} Known: {known}.")
        if name not in map(str, get_available_trackers()):
            raise ConfigError(f"log_with: {name} is not installed (pip install {name}).")
    # With it, only the main process would load weights, and the policies that act need theirs.
    os.environ["FSDP_CPU_RAM_EFFICIENT_LOADING"] = "false"
    accelerator = Accelerator(
        cpu=config.model.device == "cpu",
        mixed_precision=config.model.mixed_precision,
        log_with=[*names, *trackers] or None,
    )
    check_engine(accelerator)
    if config.model.device == "cuda" and accelerator.device.type != "cuda":
        raise ConfigError(
            f"device is 'cuda', but PyTorch {torch.__version__} finds no such GPU: use 'auto' "
            "or 'cpu', or install a build of PyTorch for your GPU."
        )
    return accelerator


def open_folder(accelerator: Accelerator, recipe: str, config: TrainConfig) -> checkpoint.RunFolder:
    """Opens the run's folder. The main process locks and checks it, the others only read.

    Raises:
        CheckpointError: in every process, if the main one could not.
        ConfigError: if its name cannot be read.
    """
    names = {
        "recipe": recipe,
        "env": config.environment.label,
        "seed": config.run.seed,
    }
    try:
        name = config.run.run_dir.format(**names)
    except (LookupError, ValueError) as error:
        raise ConfigError(
            f"run_dir = {config.run.run_dir!r}: braces may hold recipe, env or seed."
        ) from error
    errors: list[Exception | None] = []
    folder = None
    if accelerator.is_main_process:
        free = set(FREE_ON_RESUME)
        if config.optimisation.lr_schedule == "linear":
            free -= {"iterations"}  # the schedule depends on it
        errors = [None]
        try:
            folder = checkpoint.RunFolder(name, resume=config.run.resume)
            folder.record_config(recipe, config.to_json(), free)
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


def load_run_state(start: Path | None) -> RunState:
    """Returns the counters of a checkpoint, or those of a new run."""
    if start is None:
        return RunState()
    file = start / "state.json"
    with checkpoint.loading(file):
        state = json.loads(file.read_text(encoding="utf-8"))
        return from_json(RunState, state["progress"])


def load_policy(
    accelerator: Accelerator,
    config: TrainConfig,
    make_env: MakeEnv,
    folder: checkpoint.RunFolder,
    saved: Path | None,
) -> Policy:
    """Loads the policy that a checkpoint holds in `saved`, or the one that the settings name.

    Raises:
        CheckpointError: if the policy of the checkpoint cannot be loaded.
        ConfigError: if the settings do not fit the model.
    """
    policy = _open_policy(accelerator, config, make_env, folder, saved)
    wanted = config.model.gradient_checkpointing
    loaded = config.kind != "new" and policy.supports_checkpointing
    if loaded if wanted is None else wanted:
        policy.checkpoint_layers()
    rollout = config.rollout
    if rollout.engine == "vllm" and not rollout.rollout_workers:
        if rollout.engine_url is not None and accelerator.num_processes > 1:
            raise ConfigError(
                "engine_url is the server of one process, but there are "
                f"{accelerator.num_processes}: leave it out, so that each process has its own vLLM."
            )
        policy.use(vllm_engine(config, policy))
    return policy


def reference_folder(folder: checkpoint.RunFolder, config: TrainConfig, iteration: int) -> Path:
    """Returns the folder of the reference policy of an iteration, one for each if it moves."""
    every, whole = config.loss.reference_every, folder.path / "reference"
    return whole / f"{iteration // every * every:06d}" if every else whole


def load_reference(policy: Policy, reference: Path, options: dict[str, Any]) -> None:
    """Loads the reference policy in a folder, if the run has one."""
    if reference.exists():
        with checkpoint.loading(reference):
            policy.load_reference(reference, **options)


def write_reference(
    folder: checkpoint.RunFolder, config: TrainConfig, policy: Policy, at: int
) -> None:
    """Writes the policy of iteration `at` as reference, and deletes those that no one needs."""
    target, saved = reference_folder(folder, config, at), folder.found()
    checkpoint.replace_folder(target, policy.save, checksums=True)
    if config.loss.reference_every:
        needed = reference_folder(folder, config, int(saved[0].name) if saved else 0)
        for other in target.parent.iterdir():
            if other.name < needed.name:
                shutil.rmtree(other)


def vllm_engine(config: TrainConfig, policy: Policy) -> Engine:
    """Returns a vLLM engine for a policy: a running server, or one in this process."""
    rollout = config.rollout
    if rollout.engine_url is not None:
        return VLLMServer(policy, rollout.engine_url, max_length=rollout.max_tokens)
    autocast = {"no": None, "bf16": "bfloat16", "fp16": "float16"}
    return VLLMEngine(
        policy,
        dtype=autocast[config.model.mixed_precision],
        max_length=rollout.max_tokens,
        memory=rollout.engine_memory,
        sleep=rollout.engine_sleep,
    )


def _open_policy(
    accelerator: Accelerator,
    config: TrainConfig,
    make_env: MakeEnv,
    folder: checkpoint.RunFolder,
    saved: Path | None,
) -> Policy:
    options = load_options(accelerator, config, saved)
    transformers_logging.disable_progress_bar()
    if saved is not None:
        with checkpoint.loading(saved):
            return Policy.load(saved, **options)
    if config.model.model not in SIZES:
        return Policy.load(config.model.model, lora=config.lora(), **options)
    if accelerator.is_main_process:
        with checkpoint.writing(folder.path / "model"):
            tiny_policy(
                make_env,
                seed=config.run.seed,
                size=config.model.model,
                folder=folder.path / "model",
            )
    accelerator.wait_for_everyone()
    return Policy.load(folder.path / "model", **options)


def load_options(
    accelerator: Accelerator, config: TrainConfig, saved: Path | None
) -> dict[str, Any]:
    """Returns the options of `Policy.load`."""
    return {
        "dtype": _dtype(config, saved),
        "device": accelerator.device,
        "trust_remote_code": config.model.trust_remote_code,
        "batch_size": config.rollout.generation_batch,
    }


def _dtype(config: TrainConfig, saved: Path | None) -> str:
    """Returns the dtype to load weights in.

    Under autocast, frozen float32 weights would be cast in every forward pass. The base of an
    adapter is therefore loaded in half precision. The adapter itself stays in float32.
    """
    model = config.model
    folder = Path(model.model) if saved is None else saved
    frozen = model.lora_rank or (folder / "adapter_config.json").is_file()
    if model.dtype == "float32" and frozen:
        half = {"no": "float32", "bf16": "bfloat16", "fp16": "float16"}
        return half[model.mixed_precision]
    return model.dtype


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
    """Makes learner and optimiser, and restores critic and optimiser from a folder."""
    if critic is not None:
        critic.to(accelerator.device)
        if start is not None:
            state = _load(start / "critic.pt")
            with checkpoint.loading(start / "critic.pt"):
                critic.load_state_dict(state)
    policy.autocast = accelerator.autocast
    learner = Learner(policy, critic)
    trained = trained_copy(accelerator, learner, config.rollout.normalization)
    optimisation = config.optimisation
    optimizer: Any = AdamW(
        [parameter_group(trained.policy, optimisation.lr)],
        betas=optimisation.adam_betas,
        eps=optimisation.adam_eps,
        weight_decay=optimisation.weight_decay,
    )
    prepared, optimizer = accelerator.prepare(trained, optimizer)
    if critic is not None:
        trained = accelerator.unwrap_model(prepared)
        optimizer.add_param_group(parameter_group(trained.critic, config.critic.critic_lr))
    if start is not None:
        saved = _load(start / "optimizer.pt")
        with checkpoint.loading(start / "optimizer.pt"):
            load_optimizer(optimizer, saved["optimizer"])
        if accelerator.scaler is not None and "scaler" in saved:
            accelerator.scaler.load_state_dict(saved["scaler"])
    return Updater(
        accelerator,
        prepared,
        optimizer,
        module=learner,
        loss=config.loss,
        optimisation=config.optimisation,
        critic=config.critic,
        sampling=config.sampling(),
        seed=config.run.seed,
    )


def load_hooks(start: Path) -> dict[str, Any]:
    """Returns the states of hooks and curriculum in a checkpoint."""
    return _load(start / "experience.pt")


def write_frozen(folder: checkpoint.RunFolder, state: dict[str, Any]) -> None:
    """Writes the state of hooks that never changes, if there is any."""
    if state:
        target = folder.path / "frozen"
        write = lambda path: torch.save(state, path / "experience.pt")  # noqa: E731
        checkpoint.replace_folder(target, write, checksums=True)


def load_frozen(folder: checkpoint.RunFolder) -> dict[str, Any]:
    """Returns the state that `write_frozen` wrote."""
    file = folder.path / "frozen" / "experience.pt"
    return _load(file) if file.exists() else {}


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
    updaters: Mapping[str, Updater],
    optimizers: Mapping[str, dict[str, Any]],
    agent: PolicyAgent | RoleAgent,
    hooks: dict[str, Any],
    state: RunState,
) -> None:
    """Writes everything that a resumed run needs."""
    write_policy(folder / "policy", agent, config, state)
    for role, updater in updaters.items():
        target = role_folder(folder, role)
        target.mkdir(parents=True, exist_ok=True)
        critic = updater.module.critic
        if critic is not None:
            torch.save(critic.state_dict(), target / "critic.pt")
        saved = {"optimizer": optimizers[role]}
        if updater.accelerator.scaler is not None:
            saved["scaler"] = updater.accelerator.scaler.state_dict()
        torch.save(saved, target / "optimizer.pt")
    torch.save(hooks, folder / "experience.pt")
    text = json.dumps({"progress": asdict(state), "versions": checkpoint.versions()})
    (folder / "state.json").write_text(text + "\n", encoding="utf-8")


def write_policy(
    folder: Path, agent: PolicyAgent | RoleAgent, config: TrainConfig, state: RunState
) -> None:
    """Writes the policy, or those of all roles, with everything needed to act."""
    agent.save(
        folder,
        env_id=config.environment.env_id,
        env_kwargs=config.environment.env_kwargs,
        iteration=state.iteration,
    )
