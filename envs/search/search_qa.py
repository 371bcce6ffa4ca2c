"""SearchQA: answer questions that take several pages of a generated encyclopedia, or of files."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

from agentgym.agents.text_model import MODELS
from agentgym.core import TextEnv
from agentgym.envs.search.answerer import answerer as answerer_of
from agentgym.envs.search.documents import load_documents
from agentgym.envs.search.model_search import ModelCorpus
from agentgym.envs.search.question_files import QuestionFile, load_questions
from agentgym.envs.search.questions import (
    MOST_CHAINS,
    MOST_HOPS,
    Question,
    draw_comparison,
    draw_question,
    exact_match,
    world_of,
)
from agentgym.envs.search.reports import REPORT, report_episode
from agentgym.envs.search.rules import ANSWERS, instructions
from agentgym.envs.search.world import Corpus, Page
from agentgym.errors import ConfigError, DataError
from agentgym.judges import outcome_judge, outcome_of
from agentgym.tasks import Tasks
from agentgym.time_step import UNJUDGED, TimeStep
from agentgym.utils.action_parsing import code_command
from agentgym.utils.serialization import ADDED

SHOWN = 5
LONGEST = 500
"""Number of characters of a query or an answer."""
LINE = 120
PAGE = 3000
_BRACKET = re.compile(r"[\[\]]")
_ACTION = re.compile(r"(search|open|answer|report)\s*\[(.*)\]\W{0,9}", re.IGNORECASE | re.DOTALL)


def _closes_early(text: str) -> bool:
    """Whether a bracket closes the action within its text, and another one opens behind it."""
    depth, closed = 0, False
    for mark in _BRACKET.findall(text):
        depth += 1 if mark == "[" else -1
        if closed and mark == "[":
            return True
        closed = closed or depth < 0
    return False


@dataclass
class State:
    """The pages opened, the number of searches, and the score of the answer.

    Attributes:
        opened: titles of the opened pages that are needed, in order.
        read: titles of all opened pages, in order.
        searches: number of searches.
        query: the last query.
        score: score of the answer, or None before it.
        right: whether the answer is an exact match.
        unjudged: whether the judge's verdict on a report cannot be read.
    """

    opened: list[str] = field(default_factory=list)
    read: list[str] = field(default_factory=list)
    searches: int = 0
    query: str = ""
    score: float | None = None
    right: bool = False
    unjudged: bool = field(default=False, metadata=ADDED)


@lru_cache(maxsize=8192)
def question_of(
    task: str, misleading: float, hops: int | None, chains: int, masked: int
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

    With `corpus` and `questions`, the pages are documents of your own. A judge can score reports in
    place of short answers (`score`).

    The search engine ranks pages by BM25 with the formula and the terms of `WebShop-v0`.

    ## Action Space
    Text, one of:

    - `search[author of The Silver Lantern]`: show the titles and first sentences of the best 5
      pages.
    - `open[The Silver Lantern]`: show the page of a title.
    - `answer[Ada Brin]`: give the answer.
    - `answer[]`: with an `answerer`, in place of an answer: it reads the opened pages and answers.
    - `report[...]`: with a judge as `score`, in place of an answer: write a report of up to 2,000
      characters.

    ## Observation Space
    Text: the result of the last action, then the question.

    ## Rewards
    The score of the answer (term `task`): 1 for an exact match after normalisation, else 0. With
    `score="f1"`, it is the F1 score of its words. The best of several accepted answers counts.
    A report has the score of the judge, and 0 if the judge's reply cannot be read, which the last
    observation states. Each search costs `query_cost` (term `queries`). An invalid action costs
    `invalid_penalty`.

    ## Starting State
    A world and a question sampled from the task name. Each split has 64 worlds of its own.

    ## Episode End
    Termination: an answer. Truncation: after `max_turns` turns.

    ## Information
    The common keys. `admissible` is empty. `success` is an exact match, or a report with a
    score of at least 0.5. `progress` is the share of the needed pages that have been opened, and 1
    for a right answer. If the judge's reply cannot be read, `unjudged` is True, and training leaves
    the episode out. Otherwise this key is absent.

    ## Arguments
    - `hops` (int or None, default None): number of facts of a chain, 1 to 4. None: sampled.
    - `chains` (int, default 1): number of chains of a question, 1 to 24.
    - `misleading` (float, default 0.3): share of the entities with a gossip page, in [0, 1].
    - `drop` (float, default 0.0): probability that a result is missing from a list of results.
    - `query_cost` (float, default 0.0): cost of a search.
    - `score` (str, default "em"): "em" (exact match), "f1", or a judge of reports, such as
      "rubric=FILE:chat:MODEL@URL" or "module:function" (see `agentgym.judges.make_judge`).
    - `answerer` (str or None, default None): a model that is not trained and answers from the
      opened pages, such as chat:MODEL@URL, or module:function, which gets the question and the
      texts of the pages. The agent only searches.
    - `masked` (bool or int, default False): number of gaps, 1 to 4, of a text in place of a
      question. Each sentence has a gap, which the next one is about, so that more gaps are harder.
      True: 1.
    - `data_file` (str or None, default None): file in the format of HotpotQA, of the authors or of
      Hugging Face. Its questions are the tasks, one in five a test task, and the paragraphs of all
      questions are the pages. `hops`, `chains`, `misleading` and `masked` have no effect on it.
    - `corpus` (str or None, default None): folder of texts, or JSON Lines with `title` and `text`.
      A language model, such as chat:MODEL@URL, writes the pages that a query finds. Only those of
      the last query can be opened. Needs `questions`. `hops`, `chains`, `misleading` and `masked`
      have no effect on it.
    - `questions` (str or None, default None): JSON Lines with `question`, `answer`, `document`,
      `id` and `split`. The expert needs the `document` that holds the answer.
    - `max_turns` (int or None, default 15): turn limit.

    ## References
    Actions as in ReAct (arXiv 2210.03629). Multi-hop questions over pages: HotpotQA (arXiv
    1809.09600), whose exact match and F1 are used. Reinforcement learning with a search engine:
    Search-R1 (arXiv 2503.09516). Masked spans: MaskSearch (arXiv 2505.20285). A model as
    the search engine: SSRL (arXiv 2508.10874). A frozen answerer: AI-SearchPlanner (arXiv
    2508.20368).

    ## Version History
    v0: first version.
    """

    State = State
    reward_names = ("task", "queries")
    declares: ClassVar[dict[str, str]] = {
        "semantic.canary_floor": "an answer that is known counts without the pages"
    }

    def __init__(
        self,
        *,
        hops: int | None = None,
        chains: int = 1,
        misleading: float = 0.3,
        drop: float = 0.0,
        query_cost: float = 0.0,
        score: str = "em",
        answerer: str | None = None,
        masked: bool | int = False,
        data_file: str | None = None,
        corpus: str | None = None,
        questions: str | None = None,
        max_turns: int | None = 15,
        **kwargs,
    ):
        if hops is not None and not 1 <= hops <= MOST_HOPS:
            raise ValueError(f"hops must be None or 1 to {MOST_HOPS}, got {hops}.")
        if not 1 <= chains <= MOST_CHAINS:
            raise ValueError(f"chains must be 1 to {MOST_CHAINS}, got {chains}.")
        if masked and chains > 1:
            raise ValueError(f"masked needs chains=1, got {chains}.")
        if not 0 <= masked <= (MOST_HOPS if hops is None else hops):
            raise ValueError(f"masked must be 0 to {hops or MOST_HOPS} (the hops), got {masked}.")
        for name, share in (("misleading", misleading), ("drop", drop)):
            if not 0 <= share <= 1:
                raise ValueError(f"{name} must lie in [0, 1], got {share}.")
        if score not in ANSWERS and ":" not in score:
            raise ValueError(f"score must be 'em', 'f1' or a judge, got {score!r}.")
        if (corpus is None) != (questions is None) or (
            corpus is not None and data_file is not None
        ):
            raise ConfigError(
                "Expected corpus and questions, or data_file, or none of them, got "
                f"corpus={corpus!r}, questions={questions!r}, data_file={data_file!r}."
            )
        super().__init__(max_turns=max_turns, **kwargs)
        self.hops, self.chains, self.masked = hops, chains, int(masked)
        self.misleading = float(misleading)
        self.drop, self.query_cost = drop, float(query_cost)
        self.score, self.answerer = score, answerer
        self.data_file, self._pages, self._questions = (
            path if path is None or path.startswith(MODELS) else str(Path(path).absolute())
            for path in (data_file, corpus, questions)
        )
        self._given = given = self._load()
        self.tasks = Tasks.generated() if given is None else given.tasks
        if score in ANSWERS:
            _need_answers(given, score)
        else:
            outcome_judge(score)
        if answerer is not None:
            answerer_of(answerer)
        reader = "A judge" if score not in ANSWERS else "An answerer" if answerer else ""
        if reader and corpus is not None and corpus.startswith(MODELS):
            raise ConfigError(f"{reader} reads pages of documents, and {corpus!r} writes them.")
        if reader == "A judge" and answerer:
            raise ConfigError(
                f"Expected score='em' or 'f1' with an answerer, got {score!r}: a judge scores "
                "reports, which the agent writes."
            )
        self.instructions = instructions(
            generated=given is None,
            documents=corpus is not None,
            counted=chains > 1,
            score=score,
            answered=answerer is not None,
            cost=query_cost,
        )

    def _load(self) -> QuestionFile | None:
        """Returns the questions and pages of files, which environments share."""
        if self._pages is not None and self._questions is not None:
            return load_documents(self._pages, self._questions)
        return None if self.data_file is None else load_questions(self.data_file)

    @property
    def question(self) -> Question:
        """The question of the task."""
        if (given := self._given) is not None:
            return given.questions[self.task]
        return question_of(self.task, self.misleading, self.hops, self.chains, self.masked)

    @property
    def corpus(self) -> Corpus:
        """The pages, which environments share."""
        given = self._given
        return world_of(self.task, self.misleading) if given is None else given.corpus

    def _start(self, task: str) -> TimeStep:
        self.state = State()
        opening = "The encyclopedia is open." if self._pages is None else "The documents are open."
        return self._look(opening)

    def _advance(self, action: str) -> TimeStep:
        match = _ACTION.fullmatch(code_command(action))
        text = match[2].strip() if match else ""
        last = "answer" if self.score in ANSWERS else "report"
        tools = {"search": self._search, "open": self._open, last: self._answer}
        name = match[1].lower() if match else ""
        left = name == last and self.answerer is not None  # the answer is left to the answerer
        if match is None or name not in tools or bool(text) == left:
            words = "text" if self.answerer is None else ""
            return self._invalid(f"Reply with search[words], open[title] or {last}[{words}].")
        longest = REPORT if name == "report" else LONGEST
        if len(text) > longest:
            return self._invalid(f"The text in brackets has more than {longest} characters.")
        if _closes_early(text):
            return self._invalid("Reply with one action only.")
        return tools[name](text)

    def _search(self, query: str) -> TimeStep:
        self.state.searches += 1
        self.state.query = query
        pages = self.corpus.search(query, SHOWN)
        if self.drop:
            kept = self.np_random.random(SHOWN) >= self.drop
            pages = [page for page, keep in zip(pages, kept, strict=False) if keep]
        lines = [f"- {page.title}: {_first(page)} ..." for page in pages]
        return self._look("\n".join(lines) or "No results.", cost=self.query_cost)

    def _open(self, title: str) -> TimeStep:
        page = self.corpus.page(title) or self.corpus.page(title.strip("\"'`"))
        if isinstance(self.corpus, ModelCorpus):  # the pages of the last query alone
            wanted = " ".join(title.split()).casefold()
            found = self.corpus.search(self.state.query, SHOWN) if self.state.query else []
            page = next((each for each in found if each.title.casefold() == wanted), None)
        if page is None:
            return self._invalid(f"There is no page with the title {title[:80]!r}. Use search.")
        self.state.read.append(page.title)
        if page.title in self.question.titles and page.title not in self.state.opened:
            self.state.opened.append(page.title)
        return self._look(page.text[:PAGE])

    def _answer(self, text: str) -> TimeStep:
        if self.score not in ANSWERS:
            return self._report(text)
        if self.answerer is not None:
            text = answerer_of(self.answerer)(self.question.text, self._read())
        self.state.right = self.question.score(text, exact_match) == 1
        self.state.score = self.question.score(text, ANSWERS[self.score])
        given = f"The answer is {text[:LONGEST]!r}. " if self.answerer else ""
        return self._look(given + ("Right." if self.state.right else "Wrong."))

    def _read(self) -> list[Page]:
        """Returns the opened pages, in order."""
        found = (self.corpus.page(title) for title in dict.fromkeys(self.state.read))
        return [page for page in found if page is not None]

    def _report(self, text: str) -> TimeStep:
        episode = report_episode(self.instructions, self.question, self._read(), text)
        verdict = outcome_of(self.score, episode)
        self.state.score = verdict.score or 0.0
        self.state.right, self.state.unjudged = bool(verdict.success), verdict.score is None
        unread = "The reply of the judge cannot be read."
        return self._look(unread if verdict.score is None else f"Score: {verdict.score:.2f}.")

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

    def _info(self, step: TimeStep) -> dict[str, Any]:
        info = super()._info(step)
        return info | {UNJUDGED: True} if self.state.unjudged else info

    def expert(self) -> str | None:
        """Searches for pages that are not named, opens the needed pages and answers.

        None if a file does not tell the needed pages, or no answer.
        """
        question, state = self.question, self.state
        if not question.answer or (self._given is not None and not question.titles):
            return None
        left = next((title for title in question.titles if title not in state.opened), None)
        if left is None:
            if self.answerer is not None:
                return "answer[]"
            return f"{'answer' if self.score in ANSWERS else 'report'}[{question.answer}]"
        query = self._query(left)
        return f"open[{left}]" if query in ("", state.query) else f"search[{query}]"

    def _query(self, title: str) -> str:
        """Returns the expert's query for a needed page, "" if the question names it."""
        query = self.question.searches.get(title, "")
        if not query or self._pages is None:
            return query
        found = any(page.title == title for page in self.corpus.search(query, SHOWN))
        return query if found else f"{title} {query}"[:LONGEST].strip()


def _first(page: Page) -> str:
    """Returns the beginning of a page in one line."""
    return " ".join(" ".join(page.sentences).split())[:LINE]


def _need_answers(given: QuestionFile | None, score: str) -> None:
    """Raises a `DataError` if a question of files has no answer."""
    questions = {} if given is None else given.questions
    left = [name for name, question in questions.items() if not question.answer]
    if left:
        raise DataError(
            f"score={score!r} compares answers, and {len(left)} questions have none, such as "
            f'{left[0]!r}. Add them, or let a judge score reports (score="rubric=FILE:chat:...").'
        )
