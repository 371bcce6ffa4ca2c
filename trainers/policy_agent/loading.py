"""`load_agent` and `load_league`: load trained policies from folders as agents."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from transformers.utils import logging as transformers_logging

from agentgym.agents import MixedAgent
from agentgym.errors import CheckpointError
from agentgym.trainers.critics.token_q import TokenQ
from agentgym.trainers.policy.policy import STEERING_FILE, Policy
from agentgym.trainers.policy.sampling import Sampling
from agentgym.trainers.policy_agent.agent import SETTINGS_FILE, PolicyAgent
from agentgym.trainers.policy_agent.best_of import BestOf
from agentgym.trainers.rollout.context import ContextSettings
from agentgym.trainers.run.checkpoint import loading
from agentgym.trainers.run.league import member_name
from agentgym.trainers.run.pool import Pool


def load_agent(
    folder: str,
    *,
    temperature: float | None = None,
    constrain: bool | None = None,
    max_new_tokens: int | None = None,
    device: str = "cpu",
) -> PolicyAgent:
    """Loads an agent that was saved by `PolicyAgent.save`. Code in the folder is never run.

    Args:
        folder: a run folder, its subfolder `policy` or `best`, or the `policy` of a checkpoint.
        temperature: overrides the saved value.
        constrain: overrides the saved value.
        max_new_tokens: overrides the saved value.
        device: device of the model.

    Raises:
        CheckpointError: if the folder contains no policy.
        ConfigError: if the device does not exist or a value is out of range.
    """
    path, saved = read_settings(folder)
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
    policy = Policy.load(str(path), dtype="auto", device=device)
    if (steering := path / STEERING_FILE).exists():
        with loading(steering):
            policy.steer(TokenQ.load(steering).to(device))
    agent = PolicyAgent(policy, settings, sampling, constrain=constrain, name=name, wrap=wrap)
    with loading(path / "judge.pt"):
        return BestOf.load(agent, path)


def read_settings(folder: str) -> tuple[Path, dict[str, Any]]:
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
    return CheckpointError(
        f"{path} holds no policy: {SETTINGS_FILE} is missing or damaged ({error!r:.200}). "
        "Give the folder `policy` or `best` of a training run."
    )


def load_league(
    folder: str,
    *,
    temperature: float | None = None,
    constrain: bool | None = None,
    max_new_tokens: int | None = None,
    device: str = "cpu",
) -> MixedAgent:
    """Loads the average policy of a run with a pool of opponents.

    A member of the pool is sampled at the start of an episode: from the meta-strategy of `psro`,
    otherwise uniformly.

    Args:
        folder: the folder of the run.
        temperature: overrides the saved value.
        constrain: overrides the saved value.
        max_new_tokens: overrides the saved value.
        device: device of the models.

    Raises:
        CheckpointError: if the folder contains no policy or no pool, or a member is damaged.
        ConfigError: if the device does not exist or a value is out of range.
    """
    agent = load_agent(
        folder,
        temperature=temperature,
        constrain=constrain,
        max_new_tokens=max_new_tokens,
        device=device,
    )
    pool = Pool(Path(folder), agent.policy.requires_grad_(False))
    weights = {number: weight for number, weight in pool.read_mixture().items() if weight > 0}
    members = [
        PolicyAgent(
            policy,
            agent.settings,
            agent.sampling,
            constrain=agent.constrain,
            name=member_name(number),
            wrap=agent.wrap,
        )
        for number, policy in pool.load(weights).items()
    ]
    return MixedAgent(
        members, [weights[n] for n in sorted(weights)], name=f"league of {agent.name}"
    )
