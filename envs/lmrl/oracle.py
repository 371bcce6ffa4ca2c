"""Oracles of the guessing games other than the table of facts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

from agentgym.agents.basic.chat import ChatAgent
from agentgym.errors import ConfigError
from agentgym.reading import normalized

Oracle = Callable[[str, str], str]
"""(secret, question) -> an answer in free text."""

YES, NO, INVALID = "Yes.", "No.", "Invalid question."


_ANSWER = re.compile(r"\b(?:(yes|yep|yeah)|(no|nope))\b")
_DENIAL = re.compile(r"n't\b|\bnot\b")
_UNSURE = re.compile(
    r"\b(?:(?:do|does|am|is)(?:n't| not) (?:know|sure|certain|clear)|cannot say)\b"
)


def verdict(text: str) -> str:
    """Returns yes or no for a free-text answer: the first such word in it, else invalid.

    Without either, "not" means no. An answer such as "I do not know" is invalid.
    """
    lower = normalized(text).lower()
    found = _ANSWER.search(lower)
    if found:
        return YES if found[1] else NO
    return NO if _DENIAL.search(lower) and not _UNSURE.search(lower) else INVALID


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
