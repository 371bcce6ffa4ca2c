"""`TextModel`: a language model where otherwise a function returns a text."""

from __future__ import annotations

from collections.abc import Sequence

from agentgym.agents import make_agent
from agentgym.agents.basic.replies import Replies
from agentgym.reading.typography import without_thoughts
from agentgym.utils.file_cache import cached_by_files

MODELS = ("chat:", "policy:", "model:")
"""Beginnings of the sources that are language models."""
LONGEST_REPLY = 500
"""Characters of a reply that are read."""


class TextModel:
    """Answers texts by one line each.

    Those of a served model are kept (see `Replies`), so that episodes and resumed runs repeat.

    Args:
        source: chat:MODEL@URL, policy:FOLDER or model:NAME.
        prompt: the instructions of the model.

    Raises:
        ConfigError: for anything else.
    """

    def __init__(self, source: str, prompt: str):
        self._replies = Replies(make_agent(source), source, prompt)

    def __call__(self, texts: Sequence[str]) -> list[str]:
        """Returns the first line of each answer without thoughts, "" if it is empty.

        Raises:
            ChatError: if a server sends no usable reply. Earlier replies are kept.
        """
        return [_first_line(reply) for reply in self._replies(texts)]


@cached_by_files("source", maxsize=32)
def text_model(source: str, prompt: str) -> TextModel:
    """Returns the model of a source. Environments share it, and copies of them need no pickling."""
    return TextModel(source, prompt)


def _first_line(reply: str) -> str:
    lines = (line.strip() for line in without_thoughts(reply).split("\n"))
    return next((line for line in lines if line), "")[:LONGEST_REPLY]
