"""Load agents: trained policies (`load_agent`), models (`load_pretrained`)."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from transformers.utils import logging as transformers_logging

from agentgym.errors import CheckpointError, ConfigError, did_you_mean
from agentgym.trainers.critics.state_values import load_head
from agentgym.trainers.critics.token_q import TokenQ
from agentgym.trainers.policy.model_defaults import DEFAULTS, kind_of
from agentgym.trainers.policy.policy import STEERING_FILE, Policy
from agentgym.trainers.policy.roles import load_sibling, role_folder
from agentgym.trainers.policy.sampling import Sampling
from agentgym.trainers.policy_agent.agent import SETTINGS_FILE, PolicyAgent
from agentgym.trainers.policy_agent.best_of import BestOf, Majority
from agentgym.trainers.policy_agent.judge import Judge
from agentgym.trainers.policy_agent.role_agent import RoleAgent
from agentgym.trainers.rollout.context import ContextSettings, Mode
from agentgym.trainers.system.checkpoint import loading


def load_agent(
    folder: str,
    *,
    role: str | None = None,
    temperature: float | None = None,
    constrain: bool | None = None,
    max_new_tokens: int | None = None,
    best_of: int = 1,
    judge: str | None = None,
    majority: int = 1,
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
        best_of: actions to sample per turn, of which the one with the highest score of the judge is
            played (see `BestOf`).
        judge: folder of a reward model, such as a run of `orm` or its subfolder `judge`. It may
            have been trained with another policy and tokenizer.
        majority: actions to sample per turn, of which the most frequent one is played
            (self-consistency, see `Majority`).
        device: device of the model.

    Raises:
        CheckpointError: if the folder contains no policy, or that of the judge no judge.
        ConfigError: if `best_of` and `judge` are not given together, or with `majority`, the device
            does not exist, a value is out of range, there is no policy of the role, or the policies
            of several roles do not fit together.
    """
    path, saved = read_settings(folder)
    roles = _roles(path, saved)
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
    agents = _choosing(agents, best_of, judge, majority, device)
    several = bool(roles) and role is None
    agent = RoleAgent(agents) if several else next(iter(agents.values()))
    agent.trained_in = saved.get("env_id"), saved.get("env_kwargs") or {}
    return agent


def _choosing(
    agents: dict[str, PolicyAgent], best_of: int, judge: str | None, majority: int, device: str
) -> dict[str, PolicyAgent]:
    """Returns agents that play one of several sampled actions, if asked to."""
    if (best_of > 1) != (judge is not None):
        raise ConfigError(
            "best_of actions are compared by a judge: set best_of to at least 2 and judge to a "
            f"folder, got best_of = {best_of!r} and judge = {judge!r}."
        )
    if majority < 1 or (majority > 1 and judge is not None):
        raise ConfigError(
            "majority must be at least 1, and 1 with a judge, which selects the action itself, "
            f"got {majority}."
        )
    if majority > 1:
        return {name: Majority(agent, majority) for name, agent in agents.items()}
    if judge is None:
        return agents
    found = load_judge(judge, device)
    return {name: BestOf(agent, found, best_of) for name, agent in agents.items()}


def load_judge(folder: str | Path, device: str = "cpu") -> Judge:
    """Loads a reward model.

    Args:
        folder: a run of a recipe that trains one, such as `orm`, or its subfolder `judge`.
        device: device of the model.

    Raises:
        CheckpointError: if the folder contains no judge.
        ConfigError: if there is no such device.
    """
    path = Path(folder)
    path = path / "judge" if (path / "judge").is_dir() else path
    reader = load_agent(str(path), device=device)
    if not isinstance(reader, PolicyAgent):
        raise CheckpointError(f"{path} holds policies of several roles, and no judge.")
    with loading(path / "head.pt"):
        return Judge.load(path, reader)


def _roles(path: Path, saved: dict[str, Any]) -> tuple[str, ...]:
    """Returns the roles whose policies a folder holds, none if it holds one of all roles."""
    try:
        return tuple(map(str, saved.get("roles", ())))
    except TypeError as error:
        raise _no_policy(path, error) from error


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
    path, saved = read_settings(path)
    try:
        sampling = Sampling(**saved["sampling"])
        settings = ContextSettings(**saved["context"])
        constrain = bool(saved["constrain"]) if constrain is None else constrain
        name = str(saved.get("name", "policy"))
        wrap = tuple(map(str, saved.get("wrap", ())))
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise _no_policy(path, error) from error
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
    if (critic := path.parent / "critic.pt").exists():  # a checkpoint
        agent.critic = load_head(critic, policy)
    with loading(path / "judge.pt"):
        return BestOf.load(agent, path)


def read_settings(folder: str | Path) -> tuple[Path, dict[str, Any]]:
    """Returns the folder of a policy, and the settings in it.

    Args:
        folder: a folder that `load_agent` takes.

    Raises:
        CheckpointError: if the folder contains no policy.
    """
    path = Path(folder)
    if not (path / SETTINGS_FILE).exists() and (path / "policy" / SETTINGS_FILE).exists():
        path = path / "policy"
    try:
        return path, dict(json.loads((path / SETTINGS_FILE).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise _no_policy(path, error) from error


def _no_policy(path: Path, error: Exception) -> CheckpointError:
    if not path.is_dir():
        problem = "there is no such folder"
    elif isinstance(error, FileNotFoundError):
        problem = f"{SETTINGS_FILE} is missing"
    else:
        problem = f"{SETTINGS_FILE} is damaged ({error!r:.200})"
    return CheckpointError(
        f"{path} holds no policy: {problem}. Give the folder of a training run, or the folder "
        "`policy` or `best` in it. A model that was not trained here is written model:NAME."
    )


def load_pretrained(
    model: str,
    *,
    context: Mode = "full",
    instructions: bool = True,
    constrain: bool = False,
    temperature: float = 0.0,
    max_new_tokens: int | None = None,
    device: str = "cpu",
) -> PolicyAgent:
    """Loads a language model as an agent with the prompts of training, to measure it before.

    Args:
        model: a Hugging Face id or a folder.
        context: part of the episode in the prompt, as in `ContextSettings`.
        instructions: whether the prompt starts with the environment's instructions.
        constrain: whether to restrict actions to `info["admissible"]` if it is not empty.
        temperature: sampling temperature. 0 is greedy decoding.
        max_new_tokens: maximum length of a free-form action in tokens. None: the trainer's default.
        device: device of the model. Weights keep the precision in which they are stored.

    Raises:
        ConfigError: if the model or the device does not exist, or a value is out of range.
    """
    default: int = DEFAULTS["max_new_tokens"][kind_of(model)]
    length = default if max_new_tokens is None else max_new_tokens
    sampling = Sampling(temperature=temperature, max_new_tokens=length)
    settings = ContextSettings(mode=context, instructions=instructions)
    transformers_logging.disable_progress_bar()
    policy = Policy.load(model, dtype="auto", device=device)
    return PolicyAgent(policy, settings, sampling, constrain=constrain, name=Path(model).name)
