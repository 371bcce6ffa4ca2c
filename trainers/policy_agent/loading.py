"""`load_agent`: loads a trained policy from a folder as an agent."""

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
from agentgym.trainers.run.checkpoint import loading


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
    path = Path(folder)
    if not (path / SETTINGS_FILE).exists() and (path / "policy" / SETTINGS_FILE).exists():
        path = path / "policy"
    try:
        saved = json.loads((path / SETTINGS_FILE).read_text(encoding="utf-8"))
        sampling = Sampling(**saved["sampling"])
        settings = ContextSettings(**saved["context"])
        constrain = bool(saved["constrain"]) if constrain is None else constrain
        name = str(saved.get("name", "policy"))
        wrap = tuple(map(str, saved.get("wrap", ())))
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise CheckpointError(
            f"{path} holds no policy: {SETTINGS_FILE} is missing or damaged ({error!r:.200}). "
            "Give the folder `policy` or `best` of a training run."
        ) from error
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
