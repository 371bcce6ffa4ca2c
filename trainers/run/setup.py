"""Builds accelerator, policy, critic and optimiser of a run."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState, DistributedType, PartialState, SharedDict
from accelerate.tracking import LOGGER_TYPE_TO_CLASS, get_available_trackers
from accelerate.utils import gather_object
from torch import nn
from transformers.utils import logging as transformers_logging

from agentgym.errors import ConfigError, did_you_mean
from agentgym.registration.making import bare_id
from agentgym.trainers.policy.engine import Engine
from agentgym.trainers.policy.model_defaults import is_adapter
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy.tiny import SIZES, tiny_policy
from agentgym.trainers.policy.vllm.engine import VLLMEngine
from agentgym.trainers.policy.vllm.server import VLLMServer
from agentgym.trainers.rollout.env_pool import MakeEnv
from agentgym.trainers.settings.config import FREE_ON_RESUME, TrainConfig, as_json
from agentgym.trainers.settings.effects import settings_of_run
from agentgym.trainers.settings.running import AUTOCAST, ModelConfig
from agentgym.trainers.system import checkpoint
from agentgym.trainers.system.checkpoint import load_tensors
from agentgym.trainers.update.learner import Learner
from agentgym.trainers.update.optimizer import AdamW, hidden_matrices, parameter_group
from agentgym.trainers.update.sharding import check_engine, load_optimizer, trained_copy
from agentgym.trainers.update.updater import Updater
from agentgym.utils.files import portable_name


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
    _forget_other_accelerators(config.model.device, config.model.mixed_precision)
    accelerator = Accelerator(
        cpu=config.model.device == "cpu",
        mixed_precision=config.model.mixed_precision,
        log_with=[*names, *trackers] or None,
    )
    if (precision := config.model.mixed_precision) != "no":
        # accelerate's own method reads the precision of the latest accelerator of the process.
        dtype = getattr(torch, AUTOCAST[precision])
        vars(accelerator)["autocast"] = partial(torch.autocast, accelerator.device.type, dtype)
    check_engine(accelerator)
    if config.model.device == "cuda" and accelerator.device.type != "cuda":
        raise ConfigError(
            f"device is 'cuda', but PyTorch {torch.__version__} finds no such GPU: use 'auto' "
            "or 'cpu', or install a build of PyTorch for your GPU."
        )
    return accelerator


def _forget_other_accelerators(device: str, mixed_precision: str) -> None:
    """Lets the next accelerator have another device and precision than those before it.

    accelerate keeps both for all accelerators of a process. Earlier accelerators keep theirs.

    Args:
        device: the setting `device`.
        mixed_precision: the setting `mixed_precision`.

    Raises:
        ConfigError: if they differ from those of an earlier accelerator, and several processes work
            together, whose groups are made once.
    """
    if not AcceleratorState._shared_state:
        return
    state = AcceleratorState()
    if state.mixed_precision == mixed_precision and _device_is(state, device):
        return
    if state.distributed_type != DistributedType.NO:
        raise ConfigError(
            f"device = {device!r} and mixed_precision = {mixed_precision!r}, but an earlier run in "
            f"these processes has {state.device.type!r} and {state.mixed_precision!r}, which "
            "accelerate keeps as long as they live: start this run in processes of its own."
        )
    # Not `_reset_state`, which clears the dictionaries that earlier accelerators read.
    AcceleratorState._shared_state = SharedDict()
    PartialState._shared_state = SharedDict()


def _device_is(state: AcceleratorState, device: str) -> bool:
    """Whether the device of a state is the one of the setting."""
    if device == "cpu" or not torch.cuda.is_available():
        return state.device.type == "cpu"
    return state.device.type != "cpu"


def open_folder(accelerator: Accelerator, recipe: str, config: TrainConfig) -> checkpoint.RunFolder:
    """Opens the run's folder. The main process locks and checks it, the others only read.

    Raises:
        CheckpointError: in every process, if the main one could not.
        ConfigError: if its name cannot be read.
    """
    names = {
        "recipe": portable_name(recipe),
        "env": portable_name("+".join(map(bare_id, config.environment.ids))),
        "seed": config.run.seed,
    }
    try:
        name = config.run.run_dir.format(**names)
    except (LookupError, ValueError) as error:
        raise ConfigError(
            f"run_dir = {config.run.run_dir!r}: braces may hold recipe, env or seed."
        ) from error
    if not name:
        raise ConfigError("run_dir is empty: give a folder, such as runs/first.")
    errors: list[Exception | None] = []
    folder = None
    if accelerator.is_main_process:
        free = set(FREE_ON_RESUME)
        if config.optimisation.lr_schedule == "linear":
            free -= {"iterations"}  # the schedule depends on it
        if config.game.automatic:
            free -= {"eval_every", "eval_exploitability"}  # the share of the pool depends on them
        errors = [None]
        try:
            folder = checkpoint.RunFolder(name, resume=config.run.resume)
            folder.record_config(
                recipe,
                config.to_json(),
                free,
                as_json(type(config)().values()),
                partial(settings_of_run, config),
            )
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
    loaded = config.kind != "new" and policy.supports_checkpointing
    if loaded and config.model.gradient_checkpointing:
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


def vllm_engine(config: TrainConfig, policy: Policy) -> Engine:
    """Returns a vLLM engine for a policy: a running server, or one in this process."""
    rollout = config.rollout
    if rollout.engine_url is not None:
        return VLLMServer(policy, rollout.engine_url, max_length=rollout.max_tokens)
    return VLLMEngine(
        policy,
        dtype=AUTOCAST.get(config.model.mixed_precision),
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
        return Policy.load(config.model.model, lora=config.lora(), seed=config.run.seed, **options)
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
        "dtype": load_dtype(config.model, saved),
        "device": accelerator.device,
        "trust_remote_code": config.model.trust_remote_code,
        "batch_size": config.rollout.generation_batch,
    }


def load_dtype(settings: ModelConfig, saved: Path | None) -> str:
    """Returns the dtype to load weights in.

    Under autocast, frozen float32 weights would be cast in every forward pass. The base of an
    adapter is therefore loaded in half precision, and an adapter in bfloat16 with it.

    Args:
        settings: the settings of the model.
        saved: the folder of the policy of a checkpoint. None: that of the settings.
    """
    folder = Path(settings.model) if saved is None else saved
    if settings.dtype == "float32" and (settings.lora_rank or is_adapter(folder)):
        return AUTOCAST.get(settings.mixed_precision, "float32")
    return settings.dtype


def slow_precision(config: TrainConfig, policy: Policy) -> str:
    """Returns a warning if the CPU has no fast arithmetic for the policy's precision, else ""."""
    if policy.device.type != "cpu":
        return ""
    used = {str(p.dtype).removeprefix("torch.") for p in policy.parameters()}
    used.add(AUTOCAST.get(config.model.mixed_precision, "float32"))
    slow = next((name for name in AUTOCAST.values() if name in used and not fast_on_cpu(name)), "")
    return slow and (
        f"This CPU has no fast arithmetic in {slow}: training is many times slower than with "
        "--dtype float32 and --mixed-precision no."
    )


def fast_on_cpu(dtype: str) -> bool:
    """Returns whether this CPU supports bfloat16 or float16 in oneDNN, which has fast kernels."""
    if not torch.backends.mkldnn.is_available():  # a build without oneDNN
        return False
    name = {"bfloat16": "bf16", "float16": "fp16"}[dtype]
    return bool(getattr(torch.ops.mkldnn, f"_is_mkldnn_{name}_supported")())


def build_updater(
    accelerator: Accelerator,
    config: TrainConfig,
    policy: Policy,
    critic: nn.Module | None,
    start: Path | None,
    role: str = "",
) -> Updater:
    """Makes learner and optimiser of a role, and restores critic and optimiser from a folder."""
    if critic is not None:
        critic.to(accelerator.device)
        if start is not None:
            state = load_tensors(start / "critic.pt")
            with checkpoint.loading(start / "critic.pt"):
                critic.load_state_dict(state)
    policy.autocast = accelerator.autocast
    learner = Learner(policy, critic)
    trained = trained_copy(accelerator, learner, config.rollout.normalization)
    optimisation = config.optimisation
    policy_group = parameter_group(trained.policy, optimisation.lr)
    if optimisation.optimizer == "muon":
        if accelerator.is_fsdp2:
            raise ConfigError(
                "Muon updates whole matrices, and FSDP2 shards them: use DDP (`accelerate launch "
                "--multi_gpu`), or optimizer adamw."
            )
        policy_group["hidden"] = hidden_matrices(trained.policy, policy_group["params"])
    optimizer: Any = AdamW(
        [policy_group],
        betas=optimisation.adam_betas,
        eps=optimisation.adam_eps,
        weight_decay=optimisation.weight_decay,
    )
    prepared, optimizer = accelerator.prepare(trained, optimizer)
    if critic is not None:
        trained = accelerator.unwrap_model(prepared)
        optimizer.add_param_group(parameter_group(trained.critic, config.critic.critic_lr))
    if start is not None:
        saved = load_tensors(start / "optimizer.pt")
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
        lr=config.game.role_lr.get(role),
        seed=config.run.seed,
    )
