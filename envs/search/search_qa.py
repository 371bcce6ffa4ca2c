"""SearchQA: answer questions that take several pages of a generated encyclopedia."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from agentgym.core import TextEnv
from agentgym.envs.search.questions import (
    MOST_CHAINS,
    MOST_HOPS,
    Question,
    draw_comparison,
    draw_question,
    exact_match,
    f1,
    load_questions,
    world_of,
)
from agentgym.envs.search.world import Corpus
from agentgym.tasks import Tasks
from agentgym.time_step import TimeStep
from agentgym.utils.action_parsing import command

SHOWN = 5
LONGEST = 500
"""Number of characters of a query or an answer."""
LINE = 120
PAGE = 3000
_ACTION = re.compile(r"(search|open|answer)\s*\[(.*)\]\W{0,9}", re.IGNORECASE | re.DOTALL)
_SECOND = re.compile(r"\]\W*(?:search|open|answer)\s*\[", re.IGNORECASE)


@dataclass
class State:
    """The pages opened, the number of searches, and the score of the answer.

    Attributes:
        opened: titles of the opened pages that are needed, in order.
        searches: number of searches.
        score: score of the answer, or None before it.
        right: whether the answer is an exact match.
    """

    opened: list[str] = field(default_factory=list)
    searches: int = 0
    score: float | None = None
    right: bool = False


@lru_cache(maxsize=8192)
def question_of(
    task: str, misleading: float, hops: int | None, chains: int, masked: bool
) -> Question:
    """Returns the question of a generated task. Environments share it."""
    found = world_of(task, misleading)
    if chains > 1:
        return draw_comparison(task, found, hops, chains)
    return draw_question(task, found, hops, masked=masked)


class SearchQA(TextEnv):
    """Answer a question with a search engine over the pages of a generated world.

    ## Description
    A world has 108 people, cities, countries, works, organisations and events, each with a page
    that states its own facts in one of several wordings. A question follows a chain of 1 to 4
    facts, such as the capital of the country in which the author of a novel was born. In half of
    the questions about works and events, the first one is described instead of named. Names are
    similar, and gossip pages state facts that are wrong, next to the right page in the search
    results. Every task's world is generated, so that no answer can be memorised.

    With `chains` above 1, a question describes this many works, follows the same relations from
    each, and asks for the most frequent end, the number of different ends, the number of works with
    a given end, or the title of the work with the first or last year. The expert takes two turns
    per work and one per further page, about 60 in `SearchQA-Long-v0` with 20 works.

    The search engine ranks pages by BM25 with the formula and the terms of `WebShop-v0`.

    ## Action Space
    Text, one of:

    - `search[author of The Silver Lantern]`: show the titles and first sentences of the best 5
      pages.
    - `open[The Silver Lantern]`: show the page of a title.
    - `answer[Ada Brin]`: give the answer.

    ## Observation Space
    Text: the result of the last action, then the question.

    ## Rewards
    The score of the answer (term `task`): 1 for an exact match after normalisation, else 0. With
    `score="f1"`, it is the F1 score of its words. Each search costs `query_cost` (term `queries`).
    An invalid action costs `invalid_penalty`.

    ## Starting State
    A world and a question sampled from the task name. Each split has 64 worlds of its own.

    ## Episode End
    Termination: an answer. Truncation: after `max_turns` turns.

    ## Information
    The common keys. `admissible` is empty. `success` is an exact match. `progress` is the share of
    the needed pages that have been opened, and 1 for a right answer.

    ## Arguments
    - `hops` (int or None, default None): number of facts of a chain, 1 to 4. None: sampled.
    - `chains` (int, default 1): number of chains of a question, 1 to 24.
    - `misleading` (float, default 0.3): share of the entities with a gossip page, in [0, 1].
    - `drop` (float, default 0.0): probability that a result is missing from a list of results.
    - `query_cost` (float, default 0.0): cost of a search.
    - `score` (str, default "em"): "em" (exact match) or "f1".
    - `masked` (bool, default False): whether a question is a sentence with a gap.
    - `data_file` (str or None, default None): file in the format of HotpotQA, of the authors or of
      Hugging Face. Its questions are the tasks, one in five a test task, and the paragraphs of all
      questions are the pages. `hops`, `chains`, `misleading` and `masked` have no effect on it.
    - `max_turns` (int or None, default 15): turn limit.

    ## References
    Actions as in ReAct (arXiv 2210.03629). Multi-hop questions over pages: HotpotQA (arXiv
    1809.09600), whose exact match and F1 are used. Reinforcement learning with a search engine:
    Search-R1 (arXiv 2503.09516). Masked spans: MaskSearch (arXiv 2505.20285).

    ## Version History
    v0: first version.
    """

    State = State
    reward_names = ("task", "queries")

    def __init__(
        self,
        *,
        hops: int | None = None,
        chains: int = 1,
        misleading: float = 0.3,
        drop: float = 0.0,
        query_cost: float = 0.0,
        score: str = "em",
        masked: bool = False,
        data_file: str | None = None,
        max_turns: int | None = 15,
        **kwargs,
    ):
        if hops is not None and not 1 <= hops <= MOST_HOPS:
            raise ValueError(f"hops must be None or 1 to {MOST_HOPS}, got {hops}.")
        if not 1 <= chains <= MOST_CHAINS:
            raise ValueError(f"chains must be 1 to {MOST_CHAINS}, got {chains}.")
        if masked and chains > 1:
            raise ValueError(f"masked needs chains=1, got {chains}.")
        for name, share in (("misleading", misleading), ("drop", drop)):
            if not 0 <= share <= 1:
                raise ValueError(f"{name} must lie in [0, 1], got {share}.")
        if score not in ("em", "f1"):
            raise ValueError(f"score must be 'em' or 'f1', got {score!r}.")
        super().__init__(max_turns=max_turns, **kwargs)
        self.hops, self.chains, self.masked = hops, chains, masked
        self.misleading = float(misleading)
        self.drop, self.query_cost, self.score = drop, float(query_cost), score
        self.data_file = None if data_file is None else str(Path(data_file).absolute())
        self.instructions = INSTRUCTIONS.format(
            world="" if data_file else " about a made-up world",
            answer=", or a number" if chains > 1 else "",
            cost=f"- Each search costs {query_cost:g}.\n" if query_cost else "",
            scoring="1 if it is right" if score == "em" else "the F1 score of its words",
        )
        self.tasks = Tasks.generated()
        if self.data_file is not None:
            self.tasks = load_questions(self.data_file).tasks

    @property
    def question(self) -> Question:
        """The question of the task."""
        if self.data_file is not None:
            return load_questions(self.data_file).questions[self.task]
        return question_of(self.task, self.misleading, self.hops, self.chains, self.masked)

    @property
    def corpus(self) -> Corpus:
        """The pages, which environments share."""
        if self.data_file is not None:
            return load_questions(self.data_file).corpus
        return world_of(self.task, self.misleading)

    def _start(self, task: str) -> TimeStep:
        self.state = State()
        return self._look("The encyclopedia is open.")

    def _advance(self, action: str) -> TimeStep:
        match = _ACTION.fullmatch(command(action))
        text = match[2].strip() if match else ""
        if match is None or not text:
            return self._invalid("Reply with search[words], open[title] or answer[text].")
        if len(text) > LONGEST:
            return self._invalid(f"The text in brackets has more than {LONGEST} characters.")
        if _SECOND.search(match[0]):
            return self._invalid("Reply with one action only.")
        tools = {"search": self._search, "open": self._open, "answer": self._answer}
        return tools[match[1].lower()](text)

    def _search(self, query: str) -> TimeStep:
        self.state.searches += 1
        pages = self.corpus.search(query, SHOWN)
        if self.drop:
            kept = self.np_random.random(SHOWN) >= self.drop
            pages = [page for page, keep in zip(pages, kept, strict=False) if keep]
        lines = [f"- {page.title}: {' '.join(page.sentences)[:LINE]} ..." for page in pages]
        return self._look("\n".join(lines) or "No results.", cost=self.query_cost)

    def _open(self, title: str) -> TimeStep:
        page = self.corpus.page(title)
        if page is None:
            return self._invalid(f"There is no page with the title {title[:80]!r}. Use search.")
        if page.title in self.question.titles and page.title not in self.state.opened:
            self.state.opened.append(page.title)
        return self._look(page.text[:PAGE])

    def _answer(self, text: str) -> TimeStep:
        answer = self.question.answer
        self.state.right = exact_match(text, answer) == 1
        self.state.score = float(self.state.right) if self.score == "em" else f1(text, answer)
        return self._look("Right." if self.state.right else "Wrong.")

    def _look(self, result: str, cost: float = 0.0) -> TimeStep:
        state, question = self.state, self.question
        share = len(state.opened) / max(1, len(question.titles))
        return TimeStep(
            text=f"{result}\n\nQuestion: {question.text}",
            rewards={"task": state.score or 0.0, "queries": 0.0 - cost},
            terminated=state.score is not None,
            success=state.right,
            progress=1.0 if state.right else share,
        )

    def expert(self) -> str | None:
        """Searches for pages that are not named, opens the needed pages and answers."""
        question, state = self.question, self.state
        left = next((title for title in question.titles if title not in state.opened), None)
        if left is None:
            return f"answer[{question.answer}]"
        searched = state.searches > sum(title in question.searches for title in state.opened)
        if left in question.searches and not searched:
            return f"search[{question.searches[left]}]"
        return f"open[{left}]"


INSTRUCTIONS = (
    "Answer a question with the pages of an encyclopedia{world}.\n"
    "Each turn, reply with one action and nothing else:\n"
    "- search[author of The Silver Lantern]: search for pages. Five results are shown.\n"
    "- open[The Silver Lantern]: read the page with this title.\n"
    "- answer[Ada Brin]: give your answer. This ends the episode.\n"
    "Rules:\n"
    "- The page of a thing states its facts. Facts on gossip pages may be wrong.\n"
    "- The answer is a few words, written as on the pages{answer}.\n"
    "{cost}"
    "The reward for the answer is {scoring}."
)
