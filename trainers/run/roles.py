"""Policies and updaters of the roles of a game, or those that all roles share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from accelerate import Accelerator
from torch import nn

from agentgym.errors import ConfigError
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy.roles import load_sibling, role_folder, role_names
from agentgym.trainers.rollout.env_pool import MakeEnv
from agentgym.trainers.run.saving import load_reference, load_run_state
from agentgym.trainers.run.setup import build_updater, load_options, load_policy
from agentgym.trainers.settings.config import TrainConfig
from agentgym.trainers.system import checkpoint
from agentgym.trainers.update.role_updater import RoleUpdater
from agentgym.trainers.update.sharding import share_frozen


def load_policies(
    accelerator: Accelerator,
    config: TrainConfig,
    make_env: MakeEnv,
    folder: checkpoint.RunFolder,
    start: Path | None,
    roles: Sequence[str],
) -> dict[str, Policy]:
    """Loads the policies of a checkpoint, or those or copies of the one that the settings name.

    Args:
        accelerator: the accelerator.
        config: the settings.
        make_env: makes an environment, from whose texts a new model gets its tokenizer.
        folder: the folder of the run.
        start: the checkpoint. None: a new run, in which all roles begin with the same weights,
            or with their own in a folder of policies by role.
        roles: the roles with policies of their own. ("",): one policy.

    Raises:
        CheckpointError: if a policy of the checkpoint cannot be loaded.
        ConfigError: if the settings do not fit the model.
    """
    if start is None:
        saved = _begun(config, roles)
    else:
        saved = {role: role_folder(start / "policy", role) for role in roles}
    first = load_policy(accelerator, config, make_env, folder, saved.get(roles[0]))
    kind = config.game.roles
    if kind != "shared" and first.has_adapter != (kind == "adapters"):
        model = f"roles = {kind!r}, but the model {config.model.model!r} has"
        if not first.has_adapter:
            raise ConfigError(
                f"{model} no adapter: set roles to 'separate' to train all weights of each role, "
                "or lora_rank above 0 with a pretrained model."
            )
        rank = config.model.lora_rank
        raise ConfigError(
            f"{model} an adapter: set roles to 'adapters', or "
            + (f"leave out lora_rank = {rank}." if rank else "name a model without an adapter.")
        )
    policies = {roles[0]: first}
    options = load_options(accelerator, config, saved.get(roles[0]))
    for role in roles[1:]:
        if role not in saved:
            policies[role] = first.clone()
            continue
        with checkpoint.loading(saved[role]):
            policy = policies[role] = load_sibling(first, saved[role], **options)
        policy.gradient_checkpointing = first.gradient_checkpointing
    if start is not None:
        every = config.game.exchange
        turned = load_run_state(start).iteration // every if every else 0
        for i, policy in enumerate(policies.values()):
            origin = roles[(i - turned) % len(roles)]  # whose first policy it goes on from
            load_reference(policy, folder, start, origin, options)
    return policies


def _begun(config: TrainConfig, roles: Sequence[str]) -> dict[str, Path]:
    """Returns the folders of the policies that roles begin with, none if it is the same one.

    Raises:
        ConfigError: if the settings name policies by role that they cannot begin with.
    """
    model = Path(config.model.model)
    known = role_names(model)
    if not known or config.game.roles == "shared":
        return {}
    if missing := [role for role in roles if role not in known]:
        raise ConfigError(
            f"{model} holds policies of the roles {', '.join(known)}, and none of "
            f"{', '.join(missing)}: name a folder of one policy, with which all roles begin."
        )
    if config.model.lora_rank:
        raise ConfigError(f"The policies in {model} are trained as they are: set lora_rank to 0.")
    if config.imitates:
        raise ConfigError(
            f"After behaviour cloning, all roles have one policy, and {model} holds one for each: "
            "leave out bc_demonstrations, bc_share and data, or name a folder of one policy."
        )
    return {role: role_folder(model, role) for role in roles}


def build_updaters(
    accelerator: Accelerator,
    config: TrainConfig,
    policies: Mapping[str, Policy],
    make_critic: Callable[[Policy], nn.Module] | None,
    start: Path | None,
    learning: Callable[[int], Collection[str]],
) -> RoleUpdater:
    """Makes critic and optimiser of each policy, and restores them from a checkpoint.

    Args:
        accelerator: the accelerator.
        config: the settings.
        policies: the policies by role.
        make_critic: makes the critic of a policy. None: there are none.
        start: the checkpoint. None: a new run.
        learning: maps the number of finished iterations to the roles that learn.

    Raises:
        CheckpointError: if the checkpoint cannot be loaded.
        ConfigError: if policies that are sharded are to exchange their roles.
    """
    if accelerator.is_fsdp2 and config.game.exchange:
        raise ConfigError(
            f"Policies cannot exchange their roles under FSDP2, and exchange = "
            f"{config.game.exchange}: set it to 0, or use DDP (`accelerate launch --multi_gpu`)."
        )
    parts = {}
    for role, policy in policies.items():
        critic = None if make_critic is None else make_critic(policy)
        saved = None if start is None else role_folder(start, role)
        parts[role] = build_updater(accelerator, config, policy, critic, saved, role)
    if accelerator.is_fsdp2:
        share_frozen([part.trained for part in parts.values()])
    return RoleUpdater(parts, learning)
