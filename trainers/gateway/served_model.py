"""`load_served`: a run or another model, to answer programs."""

from __future__ import annotations

from pathlib import Path

from agentgym.errors import ConfigError
from agentgym.trainers.policy_agent.agent import SETTINGS_FILE, PolicyAgent
from agentgym.trainers.policy_agent.loading import load_agent, load_pretrained

NEW_TOKENS = 512
"""Maximum length of a reply of a model that was not trained here."""


def load_served(
    model: str,
    *,
    temperature: float,
    max_new_tokens: int | None = None,
    device: str = "cpu",
) -> PolicyAgent:
    """Returns a policy with its sampling parameters.

    Args:
        model: the folder of a run, or a Hugging Face id or folder.
        temperature: sampling temperature. 0 is greedy decoding.
        max_new_tokens: maximum length of a reply in tokens. None: that of the run, and `NEW_TOKENS`
            for other models.
        device: device of the model.

    Raises:
        ConfigError: if the model does not exist, or there is a policy per role.
    """
    folder = Path(model)
    if not any((each / SETTINGS_FILE).exists() for each in (folder, folder / "policy")):
        length = NEW_TOKENS if max_new_tokens is None else max_new_tokens
        return load_pretrained(model, temperature=temperature, max_new_tokens=length, device=device)
    agent = load_agent(model, temperature=temperature, max_new_tokens=max_new_tokens, device=device)
    if not isinstance(agent, PolicyAgent):
        raise ConfigError(
            f"{model} holds no single policy that generates by itself: give the folder of one "
            "policy."
        )
    return agent
