"""Who answers the questions of the guessing games, where it is not the table of facts."""

from __future__ import annotations

import re
from collections.abc import Callable

from agentgym.agents.chat import ChatAgent
from agentgym.errors import ConfigError

Oracle = Callable[[str, str], str]
"""(what is to be guessed, question) -> an answer in free text."""

YES, NO, INVALID = "Yes.", "No.", "Invalid question."


def verdict(text: str) -> str:
    """Returns what a free answer comes to: yes where it says so, else no, else invalid."""
    said = text.lower()
    if "yes" in said:
        return YES
    return NO if "no" in said else INVALID


class ChatOracle:
    """Asks a language model behind an OpenAI-compatible server.

    Args:
        model: the model's name at the server.
        base_url: such as "http://localhost:8000/v1".
        system: what the model is told; "{secret}" stands for what is to be guessed.
    """

    def __init__(self, model: str, base_url: str, system: str):
        self.agent = ChatAgent(model, base_url, extra={"max_tokens": 60})
        self.system = system

    def __call__(self, secret: str, question: str) -> str:
        """Returns the model's answer to a question about the secret."""
        system = self.system.replace("{secret}", secret)
        messages = [{"role": "system", "content": system}, {"role": "user", "content": question}]
        return self.agent._ask(messages)


def make_oracle(oracle: str | Oracle, system: str, name: str = "oracle") -> Oracle | None:
    """Returns the oracle, or None for "rules", the table of facts.

    Args:
        oracle: "rules", "chat:MODEL@URL" or an oracle.
        system: the system prompt of a model.
        name: what the argument is called.

    Raises:
        ConfigError: for another word than "rules" or "chat:MODEL@URL".
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
