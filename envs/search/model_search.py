"""A language model in the place of a search engine: it writes the pages that a query finds."""

from __future__ import annotations

import re

from agentgym.agents import make_agent
from agentgym.agents.basic.replies import Replies
from agentgym.envs.search.world import Corpus, Page
from agentgym.reading.typography import without_thoughts

PROMPT = (
    "You are a search engine. You read a query, and reply with up to five short pages that you "
    "would find, from what you know. Each page is one line, a title and a text, such as\n"
    "Page: The Silver Lantern: The Silver Lantern is a novel by Ada Brin, published in 1950."
)
_PAGE = re.compile(r"(?im)^[\s*_`>#-]*page[\s*_`]*:[\s*_`]*([^:\s][^:\n]{0,79}):\s*(\S.{0,1800})$")


class ModelCorpus(Corpus):
    """Pages that a language model writes for each query.

    "SSRL: Self-Search Reinforcement Learning" (arXiv 2508.10874): the policy learns to search in
    what a model knows, which may be the policy itself, without an engine. Replies of a served model
    are kept in the cache, so that equal queries find equal pages.

    Args:
        source: the model: chat:MODEL@URL, policy:FOLDER or model:NAME.

    Raises:
        ConfigError: for anything else.
    """

    def __init__(self, source: str):
        super().__init__(())
        self._replies = Replies(make_agent(source), source, PROMPT)

    def search(self, query: str, k: int) -> list[Page]:
        """Returns the first k pages that the model writes, with different titles.

        Raises:
            ChatError: if a server sends no usable reply.
        """
        [reply] = self._replies([f"Query: {query}"])
        found = _PAGE.findall(without_thoughts(reply))
        pages = {" ".join(title.split()): text.strip() for title, text in reversed(found)}
        return [Page(title, (text,)) for title, text in reversed([*pages.items()])][:k]
