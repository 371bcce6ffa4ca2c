"""A frozen model that answers a question from the pages that an agent has opened."""

from __future__ import annotations

from collections.abc import Sequence

from agentgym.agents import make_agent
from agentgym.agents.basic.replies import Replies
from agentgym.agents.text_model import MODELS
from agentgym.envs.search.world import Page
from agentgym.errors import ConfigError
from agentgym.reading.answers import final_answer
from agentgym.reading.errors import NotUnderstood
from agentgym.utils.file_cache import cached_by_files
from agentgym.utils.importing import imported

PROMPT = (
    "You read pages and a question. Reply with the answer alone, in a few words, as they stand on "
    "the pages. If no page tells it, reply with your best guess."
)


class Answerer:
    """Answers questions from pages. It is not trained.

    "AI-SearchPlanner" (arXiv 2508.20368): the trained model only searches, and a model that stays
    as it is answers. Replies of a served model are kept in the cache (see `Replies`).

    Args:
        source: chat:MODEL@URL, policy:FOLDER, model:NAME, or module:function, which gets the
            question and a list of the texts of the pages.

    Raises:
        ConfigError: for anything else.
    """

    def __init__(self, source: str):
        self._source, self._replies, self._function = source, None, None
        if source.startswith(MODELS):
            self._replies = Replies(make_agent(source), source, PROMPT)
        else:
            self._function = imported(source, "answerer")

    def __call__(self, question: str, pages: Sequence[Page]) -> str:
        """Returns the answer, "" if the reply holds none, or several.

        Raises:
            ConfigError: if the function returns no text.
            ChatError: if a server sends no usable reply.
        """
        if self._function is not None:
            found = self._function(question, [page.text for page in pages])
            if not isinstance(found, str):
                raise ConfigError(f"{self._source} must return a text, got {found!r:.80}.")
            return found
        assert self._replies is not None
        parts = [page.text for page in pages] or ["There are no pages."]
        [reply] = self._replies(["\n\n".join([*parts, f"Question: {question}"])])
        try:
            return final_answer(reply)
        except NotUnderstood:
            return ""


@cached_by_files("source", maxsize=32)
def answerer(source: str) -> Answerer:
    """Returns the answerer of a source. Environments share it, and copies need no pickling."""
    return Answerer(source)
