"""`TextModel`: a language model where otherwise a function returns a text."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from agentgym.agents import make_agent
from agentgym.agents.basic.view import View
from agentgym.reading.typography import without_thoughts
from agentgym.utils.answer_file import AT_ONCE, AnswerFile

MODELS = ("chat:", "policy:", "model:")
"""Beginnings of the sources that are language models."""
LONGEST_REPLY = 500
"""Characters of a reply that are read."""


class TextModel:
    """Answers texts by one line each.

    Answers of a served model are kept in the cache (see `AnswerFile`), so that episodes and resumed
    runs repeat.

    Args:
        source: chat:MODEL@URL, policy:FOLDER or model:NAME.
        prompt: the instructions of the model.

    Raises:
        ConfigError: for anything else.
    """

    def __init__(self, source: str, prompt: str):
        self.agent, self.prompt = make_agent(source), prompt
        # A folder may hold another policy tomorrow.
        self._answers = AnswerFile(source, prompt) if source.startswith("chat:") else None

    def __call__(self, texts: Sequence[str]) -> list[str]:
        """Returns the first line of each answer without thoughts, "" if it is empty.

        Raises:
            ChatError: if a server sends no usable reply. Earlier replies are kept.
        """
        replies = self._ask(texts) if self._answers is None else self._answers(texts, self._ask)
        return [_first_line(reply) for reply in replies]

    def _ask(self, texts: Sequence[str]) -> list[str]:
        replies: list[str] = []
        for start in range(0, len(texts), AT_ONCE):
            part = texts[start : start + AT_ONCE]
            replies += self.agent.act([View.of_text(self.prompt, text) for text in part])
        return replies


@lru_cache(maxsize=32)
def text_model(source: str, prompt: str) -> TextModel:
    """Returns the model of a source. Environments share it, and copies of them need no pickling."""
    return TextModel(source, prompt)


def _first_line(reply: str) -> str:
    lines = (line.strip() for line in without_thoughts(reply).split("\n"))
    return next((line for line in lines if line), "")[:LONGEST_REPLY]
