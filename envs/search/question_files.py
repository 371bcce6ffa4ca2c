"""Questions over given pages, and files in the format of HotpotQA."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym.envs.search.questions import Question
from agentgym.envs.search.world import Corpus, Page
from agentgym.errors import DataError
from agentgym.tasks import Tasks
from agentgym.utils.file_cache import Shared, cached_by_files

TEST_EVERY = 5
SPLITS = ("train", "test")


@dataclass(frozen=True)
class QuestionFile(Shared):
    """Questions over given pages.

    Attributes:
        questions: the questions by task name.
        corpus: the pages.
        splits: the split of each task, "train" or "test". Empty: one in five is a test task.
        source: the function that reads them, and its arguments.
    """

    questions: dict[str, Question]
    corpus: Corpus
    splits: Mapping[str, str]
    source: tuple[Callable[..., QuestionFile], tuple[str, ...]]

    def __reduce__(self):
        # Other processes read the pages instead of carrying them.
        return self.source

    @property
    def tasks(self) -> Tasks:
        """The tasks of both splits."""
        names = list(self.questions)
        if self.splits:
            train, test = ([n for n in names if self.splits[n] == split] for split in SPLITS)
            return Tasks(train, test)
        return Tasks(
            train=tuple(name for i, name in enumerate(names) if i % TEST_EVERY != 1),
            test=tuple(names[1::TEST_EVERY]),
        )


@cached_by_files("path", maxsize=8)
def load_questions(path: str) -> QuestionFile:
    """Reads a file of HotpotQA: questions with `context` and `supporting_facts`.

    It is a JSON list as published by the authors, or has the columns of the copy on Hugging Face
    (`id`, and `context` and `supporting_facts` as objects of lists), as a JSON list or JSON Lines.
    All paragraphs of the file form the corpus. Of paragraphs with the same title, the first counts.

    Raises:
        DataError: if the file cannot be read or has another format, or two questions have one id.
    """
    try:
        records = _records(Path(path).read_text(encoding="utf-8-sig"))
        pages: dict[str, Page] = {}
        for record in records:
            for page in _paragraphs(record["context"]):
                pages.setdefault(page.title, page)
        corpus = Corpus(tuple(pages.values()))
        questions: dict[str, Question] = {}
        for record in records:
            name = _text(record["_id"] if "_id" in record else record["id"])
            if f"question/{name}" in questions:
                raise DataError(f"{path} has two questions with the id {name!r:.80}.")
            questions[f"question/{name}"] = _question(record, corpus)
    except DataError:
        raise
    except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise DataError(
            f"{path} is no file of HotpotQA (a JSON list or JSON Lines of questions with _id or "
            f"id, question, answer, context and supporting_facts): {type(error).__name__}: {error}"
        ) from error
    if len(questions) < 2:
        raise DataError(f"{path} needs at least 2 questions, got {len(questions)}.")
    return QuestionFile(questions, corpus, {}, (load_questions, (path,)))


def _records(text: str) -> list[dict[str, Any]]:
    """Returns the questions of a JSON list or of JSON Lines."""
    if text.lstrip().startswith("{"):
        return [json.loads(line) for line in text.split("\n") if line.strip()]
    return json.loads(text)


def _pairs(value: Any, first: str, second: str) -> list[tuple[Any, Any]]:
    """Returns the pairs of a list of pairs, or of an object with two lists of equal length."""
    if isinstance(value, dict):
        return list(zip(value[first], value[second], strict=True))
    return [(one, other) for one, other in value]


def _paragraphs(value: Any) -> list[Page]:
    pages = []
    for title, sentences in _pairs(value, "title", "sentences"):
        title = " ".join(_text(title).split())
        pages.append(Page(title, tuple(_text(sentence).strip() for sentence in _list(sentences))))
    return pages


def _question(record: dict[str, Any], corpus: Corpus) -> Question:
    facts = _pairs(record.get("supporting_facts", ()), "title", "sent_id")
    named = (corpus.page(_text(title)) for title, _ in facts)
    titles = dict.fromkeys(page.title for page in named if page is not None)
    return Question(_text(record["question"]), _text(record["answer"]), tuple(titles))


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"expected a list, got {value!r:.80}")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected a string, got {value!r:.80}")
    return value
