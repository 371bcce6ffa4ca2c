"""`load_agent`: the trained policy in a folder, ready to act."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

from transformers.utils import logging as transformers_logging

from agentgym.errors import CheckpointError
from agentgym.trainers.critics.token_q import TokenQ
from agentgym.trainers.policy.policy import STEERING_FILE, Policy
from agentgym.trainers.policy.sampling import Sampling
from agentgym.trainers.policy_agent.agent import SETTINGS_FILE, PolicyAgent
from agentgym.trainers.policy_agent.best_of import BestOf
from agentgym.trainers.rollout.context import ContextSettings


def load_agent(
    folder: str,
    *,
    temperature: float | None = None,
    constrain: bool | None = None,
    max_new_tokens: int | None = None,
    device: str = "cpu",
) -> PolicyAgent:
    """Loads a policy that was written by `PolicyAgent.save`.

    Args:
        folder: a run's folder, its `policy` or `best`, or a checkpoint's `policy`.
        temperature: replaces the saved one.
        constrain: replaces the saved one.
        max_new_tokens: replaces the saved one.
        device: device of the model.

    Raises:
        CheckpointError: if there is no policy in the folder.
        ConfigError: if there is no such device.
    """
    path = Path(folder)
    if not (path / SETTINGS_FILE).exists() and (path / "policy" / SETTINGS_FILE).exists():
        path = path / "policy"
    try:
        saved = json.loads((path / SETTINGS_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(
            f"{path} holds no policy: {SETTINGS_FILE} is missing or damaged ({error}). "
            "Give the folder `policy` or `best` of a training run."
        ) from error
    sampling = Sampling(**saved["sampling"])
    if temperature is not None:
        sampling = dataclasses.replace(sampling, temperature=temperature)
    if max_new_tokens is not None:
        sampling = dataclasses.replace(sampling, max_new_tokens=max_new_tokens)
    transformers_logging.disable_progress_bar()
    policy = Policy.load(str(path), dtype="auto", device=device)
    if (steering := path / STEERING_FILE).exists():
        policy.steer(TokenQ.load(steering).to(device))
    agent = PolicyAgent(
        policy,
        ContextSettings(**saved["context"]),
        sampling,
        constrain=saved["constrain"] if constrain is None else constrain,
        name=saved.get("name", "policy"),
    )
    return BestOf.load(agent, path)
