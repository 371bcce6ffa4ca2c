"""Oracles of the guessing games other than the table of facts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

from agentgym.agents.chat import ChatAgent
from agentgym.errors import ConfigError

Oracle = Callable[[str, str], str]
"""(secret, question) -> an answer in free text."""

YES, NO, INVALID = "Yes.", "No.", "Invalid question."


def verdict(text: str) -> str:
    """Returns yes if a free-text answer contains "yes", no if it contains "no", else invalid."""
    lower = text.lower()
    if "yes" in lower:
        return YES
    return NO if "no" in lower else INVALID


class ChatOracle:
    """A language model behind an OpenAI-compatible server as the oracle.

    Args:
        model: the model's name on the server.
        base_url: the server's address, such as "http://localhost:8000/v1".
        system: the system prompt, with "{secret}" in place of the secret.
    """

    def __init__(self, model: str, base_url: str, system: str):
        self.agent = ChatAgent(model, base_url, extra={"max_tokens": 60})
        self.system = system

    def __call__(self, secret: str, question: str) -> str:
        """Returns the model's answer to a question about the secret."""
        system = self.system.replace("{secret}", secret)
        messages = [{"role": "system", "content": system}, {"role": "user", "content": question}]
        return self.agent._ask(messages, Counter())


def make_oracle(oracle: str | Oracle, system: str, name: str = "oracle") -> Oracle | None:
    """Returns the oracle, or None for "rules" (the table of facts).

    Args:
        oracle: "rules", "chat:MODEL@URL" or an oracle.
        system: the system prompt of a model.
        name: the name of the argument, for error messages.

    Raises:
        ConfigError: for a string other than "rules" or "chat:MODEL@URL".
    """
    if callable(oracle):
        return oracle
    if oracle == "rules":
        return None
    found = re.fullmatch(r"chat:(.+)@(https?://.+)", oracle)
    if found is None:
        raise ConfigError(
            f"{name} must be 'rules', 'chat:MODEL@URL' or a function, got {oracle!r}."
        )
    return ChatOracle(found[1], found[2], system)
