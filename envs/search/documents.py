"""Documents of one's own as pages, with questions about them."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agentgym.agents.text_model import MODELS
from agentgym.envs.search.model_search import ModelCorpus
from agentgym.envs.search.question_files import SPLITS, QuestionFile
from agentgym.envs.search.questions import Question, normalised
from agentgym.envs.search.world import Corpus, Page
from agentgym.errors import DataError, did_you_mean
from agentgym.utils.file_cache import cached_by_files

SUFFIXES = (".txt", ".md", ".rst")
PART = 1800
"""Maximum number of characters of a page. Longer documents have several."""
LONGEST_ANSWER = 500
FIELDS = ("question", "answer", "document", "id", "split", "metadata")
_PLACES = tuple(re.compile(mark) for mark in (r"\n\s*\n", r"\n", r"\s"))
"""Places where a document may be divided, the best ones first."""


@cached_by_files("corpus", "questions", maxsize=8)
def load_documents(corpus: str, questions: str) -> QuestionFile:
    """Reads documents and questions about them.

    The documents are the texts of a folder and its subfolders (`SUFFIXES`), whose titles are their
    paths without the suffix, or a file of JSON Lines with `title` and `text`, such as a corpus of
    BEIR. A document of more than `PART` characters becomes several pages, "guide", "guide (2)", ...

    The questions are JSON Lines with `question`, `answer` (a text, or a list of accepted ones),
    `document` (the title of the document with the answer, or a list of titles), `id`, `split`
    ("train" or "test") and `metadata`, which is not read. All but `question` may be missing.
    Documents and splits are given for all questions or for none.

    A language model in place of the documents (chat:MODEL@URL, policy:FOLDER or model:NAME) writes
    the pages that a query finds: see `ModelCorpus`.

    Raises:
        DataError: if one of them cannot be read, names the file, the line and the problem.
    """
    documents = dict[str, list[Page]]()
    source = load_documents, (corpus, questions)
    if corpus.startswith(MODELS):
        found: Corpus = ModelCorpus(corpus)
        return QuestionFile(*_questions(Path(questions), documents, found), source)
    for where, title, text in _documents(Path(corpus)):
        title = " ".join(title.split())
        if not title or not text.strip():
            raise DataError(f"{where}: expected a title and a text, and one of them is empty.")
        if title in documents:
            raise DataError(
                f"{where}: there are two documents with the title {title!r}. Rename one."
            )
        documents[title] = _pages(title, text)
    pages = tuple(page for parts in documents.values() for page in parts)
    [(title, times)] = Counter(page.title for page in pages).most_common(1)
    if times > 1:
        raise DataError(f"{corpus}: {title!r} is both a document and a part of another one.")
    return QuestionFile(*_questions(Path(questions), documents, Corpus(pages)), source)


def _documents(path: Path) -> Iterator[tuple[str, str, str]]:
    """Yields the place, title and text of the documents of a folder or file, at least one."""
    if not path.is_dir():
        for where, record in _lines(path, "documents, or a folder of texts"):
            yield where, _text(where, record, "title"), _text(where, record, "text")
        return
    files = sorted(each for each in path.rglob("*") if each.suffix.lower() in SUFFIXES)
    texts = {each: _read(each) for each in files if each.is_file()}
    if not any(text.strip() for text in texts.values()):
        raise DataError(f"{path}: expected texts ({', '.join(SUFFIXES)}) in this folder, got none.")
    for file, text in texts.items():
        if text.strip():  # empty files hold no page
            yield str(file), file.relative_to(path).with_suffix("").as_posix(), text


def _pages(title: str, text: str) -> list[Page]:
    """Returns the pages of a document."""
    parts = list(_parts(text.strip()))
    names = [title, *(f"{title} ({number})" for number in range(2, len(parts) + 1))]
    return [Page(name, (part,)) for name, part in zip(names, parts, strict=True)]


def _parts(text: str) -> Iterator[str]:
    """Yields parts of up to `PART` characters, divided at paragraphs, lines or words."""
    while len(text) > PART:
        ends = ([m.start() for m in place.finditer(text, PART // 2, PART)] for place in _PLACES)
        end = next((found[-1] for found in ends if found), PART)
        yield text[:end].rstrip()
        text = text[end:].strip()
    if text:
        yield text


def _questions(
    path: Path, documents: dict[str, list[Page]], corpus: Corpus
) -> tuple[dict[str, Question], Corpus, dict[str, str]]:
    """Reads the questions about documents, and returns them, the documents and the splits."""
    questions, splits = dict[str, Question](), dict[str, str]()
    for number, (where, record) in enumerate(_lines(path, "questions")):
        if unknown := sorted(record.keys() - {*FIELDS}):
            hint = did_you_mean(unknown[0], FIELDS)
            raise DataError(f"{where}: expected {', '.join(FIELDS)}, got {unknown[0]!r:.80}.{hint}")
        name = f"question/{_text(where, record, 'id') if 'id' in record else number}"
        if name in questions:
            raise DataError(f"{where}: there are two questions with the id {name[9:]!r:.80}.")
        questions[name] = _question(where, record, documents, corpus)
        if "split" in record:
            splits[name] = _text(where, record, "split")
            if splits[name] not in SPLITS:
                raise DataError(f"{where}: split must be 'train' or 'test', got {splits[name]!r}.")
    for field, given in (
        ("document", sum(bool(question.titles) for question in questions.values())),
        ("split", len(splits)),
    ):
        if given not in (0, len(questions)):
            raise DataError(
                f"{path}: {given} of {len(questions)} questions have a {field}. Give it for all "
                "or for none."
            )
    if len(questions) < 2 or (splits and len(set(splits.values())) < 2):
        raise DataError(f"{path}: expected at least one training and one test question.")
    return questions, corpus, splits


def _question(
    where: str, record: dict[str, Any], documents: dict[str, list[Page]], corpus: Corpus
) -> Question:
    text = " ".join(_text(where, record, "question").split())
    answers = tuple(_texts(where, record, "answer"))
    if long := [answer for answer in answers if len(answer) > LONGEST_ANSWER]:
        raise DataError(
            f"{where}: an answer has more than {LONGEST_ANSWER} characters: {long[0]:.80}"
        )
    titles = list[str]()
    for title in _texts(where, record, "document"):
        title = " ".join(title.split())
        if title not in documents:
            raise DataError(
                f"{where}: there is no document {title!r:.80}.{did_you_mean(title, documents)}"
            )
        titles += _needed(documents[title], answers)
    titles = list(dict.fromkeys(titles))
    query = re.sub(r"[\[\]]", " ", text)[:LONGEST_ANSWER]
    return Question(
        text,
        answers[0] if answers else "",
        tuple(titles),
        searches=dict.fromkeys(titles, query),
        others=answers[1:],
    )


def _needed(pages: list[Page], answers: tuple[str, ...]) -> list[str]:
    """Returns the first page of a document that holds an answer, the first page without one."""
    for page in pages:
        words = f" {normalised(page.text)} "
        if any(f" {normalised(answer)} " in words for answer in answers):
            return [page.title]
    return [pages[0].title]


def _lines(path: Path, kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the place and the object of each line of a file, at least one."""
    rows = [(i, row) for i, row in enumerate(_read(path).split("\n"), 1) if row.strip()]
    if not rows:
        raise DataError(f"{path}: expected JSON Lines of {kind}, got an empty file.")
    for number, row in rows:
        where = f"{path}, line {number}"
        try:
            record = json.loads(row)
        except ValueError as error:
            raise DataError(f"{where}: expected JSON Lines of {kind}: {error}.") from error
        if not isinstance(record, dict):
            raise DataError(f"{where}: expected an object, got {row:.80}.")
        yield where, record


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: expected a text in UTF-8: {error}.") from error


def _text(where: str, record: dict[str, Any], name: str) -> str:
    value = record.get(name)
    if not isinstance(value, str) or not value.strip():
        raise DataError(f"{where}: expected a text as {name!r}, got {value!r:.80}.")
    return value


def _texts(where: str, record: dict[str, Any], name: str) -> list[str]:
    """Returns a text, or a list of texts, as a list. It is empty if the field is missing."""
    value = record.get(name, [])
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not all(isinstance(v, str) and v.strip() for v in values):
        raise DataError(
            f"{where}: expected a text or a list of texts as {name!r}, got {value!r:.80}."
        )
    return values
