"""`Replies`: the replies of a language model to texts."""

from __future__ import annotations

from collections.abc import Sequence

from agentgym.agents.basic.view import Agent, View
from agentgym.utils.answer_file import AT_ONCE, AnswerFile


class Replies:
    """Asks a language model about texts.

    Replies of a served model are kept in the cache (see `AnswerFile`), so that they repeat, and go
    on after an interruption, without new requests.

    Args:
        agent: the model.
        source: its specification.
        prompt: its instructions.
    """

    def __init__(self, agent: Agent, source: str, prompt: str):
        self._agent, self._prompt = agent, prompt
        # A folder may hold another policy tomorrow.
        self._kept = AnswerFile(source, prompt) if source.startswith("chat:") else None

    def __call__(self, texts: Sequence[str]) -> list[str]:
        """Returns the reply to each text.

        Raises:
            ChatError: if a server sends no usable reply. Earlier replies are kept.
        """
        return self._ask(texts) if self._kept is None else self._kept(texts, self._ask)

    def _ask(self, texts: Sequence[str]) -> list[str]:
        replies: list[str] = []
        for start in range(0, len(texts), AT_ONCE):
            part = texts[start : start + AT_ONCE]
            replies += self._agent.act([View.of_text(self._prompt, text) for text in part])
        return replies
