"""`load_agent`: loads a trained policy from a folder as an agent."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from transformers.utils import logging as transformers_logging

from agentgym.errors import CheckpointError, ConfigError, did_you_mean
from agentgym.trainers.critics.token_q import TokenQ
from agentgym.trainers.policy.policy import STEERING_FILE, Policy
from agentgym.trainers.policy.roles import load_sibling, role_folder
from agentgym.trainers.policy.sampling import Sampling
from agentgym.trainers.policy_agent.agent import SETTINGS_FILE, PolicyAgent
from agentgym.trainers.policy_agent.best_of import BestOf
from agentgym.trainers.policy_agent.role_agent import RoleAgent
from agentgym.trainers.rollout.context import ContextSettings
from agentgym.trainers.run.checkpoint import loading


def load_agent(
    folder: str,
    *,
    role: str | None = None,
    temperature: float | None = None,
    constrain: bool | None = None,
    max_new_tokens: int | None = None,
    device: str = "cpu",
) -> PolicyAgent | RoleAgent:
    """Loads an agent that was saved by `PolicyAgent.save` or `RoleAgent.save`.

    Code in the folder is never run. Adapters of several roles share one base model.

    Args:
        folder: a run folder, its subfolder `policy` or `best`, or the `policy` of a checkpoint.
        role: the role whose policy is to act. None: the policy, or those of all roles.
        temperature: overrides the saved value.
        constrain: overrides the saved value.
        max_new_tokens: overrides the saved value.
        device: device of the model.

    Raises:
        CheckpointError: if the folder contains no policy.
        ConfigError: if the device does not exist, a value is out of range, there is no policy of
            the role, or the policies of several roles do not fit together.
    """
    path = Path(folder)
    if not (path / SETTINGS_FILE).exists() and (path / "policy" / SETTINGS_FILE).exists():
        path = path / "policy"
    roles = _roles(path)
    if role is not None and role not in roles:
        known = f"policies of the roles {', '.join(roles)}" if roles else "one policy of all roles"
        raise ConfigError(
            f"{path} holds {known}, and role is {role!r}.{did_you_mean(role, roles)}"
            f"{'' if roles else ' Leave out role.'}"
        )
    chosen = roles if role is None else (role,)
    agents: dict[str, PolicyAgent] = {}
    for name in chosen or ("",):
        first = next(iter(agents.values()), None)
        agents[name] = _load(
            role_folder(path, name),
            None if first is None else first.policy,
            temperature=temperature,
            constrain=constrain,
            max_new_tokens=max_new_tokens,
            device=device,
        )
    several = bool(roles) and role is None
    return RoleAgent(agents) if several else next(iter(agents.values()))


def _roles(path: Path) -> tuple[str, ...]:
    """Returns the roles whose policies a folder holds, none if it holds one of all roles."""
    try:
        saved = json.loads((path / SETTINGS_FILE).read_text(encoding="utf-8"))
        return tuple(map(str, saved.get("roles", ())))
    except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> CheckpointError:
    return CheckpointError(
        f"{path} holds no policy: {SETTINGS_FILE} is missing or damaged ({error!r:.200}). "
        "Give the folder `policy` or `best` of a training run."
    )


def _load(
    path: Path,
    sibling: Policy | None,
    *,
    temperature: float | None,
    constrain: bool | None,
    max_new_tokens: int | None,
    device: str,
) -> PolicyAgent:
    """Loads the agent of one policy, which shares the base model of a sibling with an adapter."""
    try:
        saved = json.loads((path / SETTINGS_FILE).read_text(encoding="utf-8"))
        sampling = Sampling(**saved["sampling"])
        settings = ContextSettings(**saved["context"])
        constrain = bool(saved["constrain"]) if constrain is None else constrain
        name = str(saved.get("name", "policy"))
        wrap = tuple(map(str, saved.get("wrap", ())))
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise _damaged(path, error) from error
    if temperature is not None:
        sampling = dataclasses.replace(sampling, temperature=temperature)
    if max_new_tokens is not None:
        sampling = dataclasses.replace(sampling, max_new_tokens=max_new_tokens)
    transformers_logging.disable_progress_bar()
    options: dict[str, Any] = {"dtype": "auto", "device": device}
    if sibling is None:
        policy = Policy.load(str(path), **options)
    else:
        policy = load_sibling(sibling, path, **options)
    if (steering := path / STEERING_FILE).exists():
        with loading(steering):
            policy.steer(TokenQ.load(steering).to(device))
    agent = PolicyAgent(policy, settings, sampling, constrain=constrain, name=name, wrap=wrap)
    with loading(path / "judge.pt"):
        return BestOf.load(agent, path)
