"""Documents of one's own: pages, questions, the expert, reports, and what is wrong with files."""

from __future__ import annotations

import json
import re
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any, TypedDict

import pytest

from agentgym.certify import Budget, certify
from agentgym.data.episode import RecordedEpisode
from agentgym.envs.search.documents import PART, load_documents
from agentgym.envs.search.reports import REPORT
from agentgym.envs.search.search_qa import SearchQA
from agentgym.errors import ConfigError, DataError
from agentgym.judges import outcome_judge


class Files(TypedDict):
    """A folder of texts, and a file of questions."""

    corpus: str
    questions: str


TEXTS = {
    "guide/install.md": "# Install\n\nThe installer needs 4 GB of memory.",
    "guide/use.txt": "Press the green key twice to start the pump.",
    "faq.rst": "The pump is quiet below 40 degrees.",
}
QUESTIONS: list[dict[str, Any]] = [
    {"question": "How much memory?", "answer": ["4 GB", "four GB"], "document": "guide/install"},
    {"question": "Which key starts the pump?", "answer": "green", "document": "guide/use"},
    {"question": "Below how many degrees is it [quiet]?", "answer": "40", "document": "faq"},
]


def lines(path: Path, records: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    return str(path)


def folder(path: Path, texts: dict[str, str]) -> str:
    for name, text in texts.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text, "utf-8")
    return str(path)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """A folder of texts and its questions."""
    questions = lines(tmp_path / "questions.jsonl", QUESTIONS)
    return {"corpus": folder(tmp_path / "docs", TEXTS), "questions": questions}


def expert_play(env: SearchQA, task: str) -> tuple[list[str], float, dict[str, Any]]:
    env.reset(seed=0, options={"task": task})
    actions, total, ended, info = [], 0.0, False, {}
    while not ended:
        action = env.expert()
        assert action is not None
        _, reward, ended, _, info = env.step(action)
        actions.append(action)
        total += reward
    return actions, total, info


def test_the_expert_searches_reads_and_answers(files: Files):
    env = SearchQA(**files)
    assert list(env.tasks.test) == ["question/1"]
    for task in (*env.tasks.train, *env.tasks.test):
        actions, total, info = expert_play(env, task)
        kinds = [action.partition("[")[0] for action in actions]
        assert kinds == ["search", "open", "answer"] and total == 1 and info["success"]
    assert "gossip" not in env.instructions and "made-up" not in env.instructions


def test_any_accepted_answer_counts_and_no_other(files: Files):
    env = SearchQA(**files, score="f1")
    for answer, score in (("Four GB.", 1.0), ("4 gb", 1.0), ("GB", 2 / 3), ("green", 0.0)):
        env.reset(seed=0, options={"task": "question/0"})
        _, reward, ended, _, info = env.step(f"answer[{answer}]")
        assert (reward, info["success"]) == (pytest.approx(score), score == 1) and ended


def test_a_folder_and_json_lines_give_the_same_pages(tmp_path: Path, files: Files):
    files_of = sorted(TEXTS.items())
    rows = [{"title": name.partition(".")[0], "text": text, "url": "-"} for name, text in files_of]
    other = lines(tmp_path / "corpus.jsonl", rows)
    expected = load_documents(**files)
    assert load_documents(other, files["questions"]).corpus.pages == expected.corpus.pages


def test_long_documents_are_divided_and_nothing_is_lost(tmp_path: Path):
    words = [f"word{number}" for number in range(2000)]
    texts = {"a.txt": " ".join(words), "b.md": "x" * (2 * PART + 1), "c.txt": "\n\n".join(words)}
    questions = [
        {"question": "Which?", "answer": "word1999", "document": name} for name in ("a", "c")
    ]
    path = folder(tmp_path / "docs", texts)
    found = load_documents(path, lines(tmp_path / "q.jsonl", questions))
    for name, text in ((Path(file).stem, text) for file, text in texts.items()):
        parts = [page for page in found.corpus.pages if page.title.startswith(name)]
        assert [page.title for page in parts[:2]] == [name, f"{name} (2)"]
        assert all(len(page.sentences[0]) <= PART for page in parts)
        joined = "".join(page.sentences[0] for page in parts)
        assert re.sub(r"\s", "", joined) == re.sub(r"\s", "", text)
    for question in found.questions.values():
        page = found.corpus.page(question.titles[0])
        assert page is not None and "word1999" in page.text and "(" in page.title


def test_a_page_that_the_question_does_not_find_is_searched_by_its_title(tmp_path: Path):
    texts = {f"pump {number}.txt": "The pump is loud." for number in range(9)}
    texts["valve.txt"] = "It is red."
    records = [{"question": "Is the pump loud?", "answer": "red", "document": "valve"}] * 2
    env = SearchQA(corpus=folder(tmp_path / "d", texts), questions=lines(tmp_path / "q", records))
    actions, total, _ = expert_play(env, "question/0")
    assert actions[:2] == ["search[valve Is the pump loud?]", "open[valve]"] and total == 1


def test_splits_of_the_file_are_kept(tmp_path: Path, files: Files):
    splits = ("test", "train", "test")
    rows = [{**q, "split": s, "id": q["answer"][0]} for q, s in zip(QUESTIONS, splits, strict=True)]
    env = SearchQA(corpus=files["corpus"], questions=lines(tmp_path / "split.jsonl", rows))
    assert list(env.tasks.train) == ["question/g"]
    assert list(env.tasks.test) == ["question/4 GB", "question/4"]


def test_questions_without_documents_have_no_expert(tmp_path: Path, files: Files):
    rows = [{"question": q["question"], "answer": q["answer"]} for q in QUESTIONS]
    env = SearchQA(corpus=files["corpus"], questions=lines(tmp_path / "plain.jsonl", rows))
    env.reset(seed=0)
    assert env.expert() is None
    assert "faq: The pump is quiet" in env.step("search[quiet pump]")[0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"answers": "4"}, r"line 2: expected question.* 'answers'. Did you mean: answer\?"),
        ({"document": "guide/use.txt"}, r"line 2: .*'guide/use.txt'. Did you mean: guide/use"),
        ({"question": " "}, "line 2: expected a text as 'question'"),
        ({"answer": 4}, "line 2: expected a text or a list of texts as 'answer'"),
        ({"answer": "x" * 501}, "line 2: an answer has more than 500"),
        ({"split": "dev"}, "line 2: split must be 'train' or 'test'"),
        ({"split": "test"}, "1 of 3 questions have a split"),
        ({"document": []}, "2 of 3 questions have a document"),
        ({"id": "0"}, "line 2: there are two questions with the id '0'"),
        ({"answer": []}, "1 questions have none, such as 'question/1'"),
    ],
)
def test_wrong_questions_are_named(
    tmp_path: Path, files: Files, change: dict[str, Any], message: str
):
    rows = [QUESTIONS[0], {**QUESTIONS[1], **change}, QUESTIONS[2]]
    with pytest.raises(DataError, match=message):
        SearchQA(corpus=files["corpus"], questions=lines(tmp_path / "wrong.jsonl", rows))


def test_wrong_documents_are_named(tmp_path: Path, files: Files):
    empty, page = tmp_path / "empty", {"title": "a", "text": "b"}
    part = {"title": "a (2)", "text": "b"}
    (empty / "sub").mkdir(parents=True)
    (empty / "picture.png").write_bytes(b"\xff")
    wrong = tmp_path / "latin"
    wrong.mkdir()
    (wrong / "a.txt").write_bytes("größer".encode("latin-1"))
    (tmp_path / "not.jsonl").write_text("title,text\n")
    cases = {
        str(empty): r"empty: expected texts \(.txt, .md, .rst\)",
        str(wrong): r"a\.txt: expected a text in UTF-8",
        str(tmp_path / "nowhere"): "nowhere: expected a text",
        str(tmp_path / "not.jsonl"): r"not\.jsonl, line 1: expected JSON Lines",
        lines(
            tmp_path / "twice", [page, page]
        ): "line 2: there are two documents with the title 'a'",
        lines(tmp_path / "part", [{**page, "text": "b " * PART}, part]): "both",
        lines(tmp_path / "field", [{"title": "a"}]): "line 1: expected a text as 'text'",
    }
    for corpus, message in cases.items():
        with pytest.raises(DataError, match=message):
            SearchQA(corpus=corpus, questions=files["questions"])
    with pytest.raises(DataError, match="empty file"):
        SearchQA(corpus=files["corpus"], questions=lines(tmp_path / "none", []))
    for one in ({"corpus": "a"}, {"questions": "b"}, {**files, "data_file": "c"}):
        with pytest.raises(ConfigError, match="corpus and questions, or data_file"):
            SearchQA(**one)  # type: ignore[arg-type]


# Reports.

JUDGE = '''
def judge(episode):
    """Half of the score for each of the report's facts that a page states."""
    read = " ".join(turn.observation for turn in episode.turns[1:])
    report = episode.turns[-1].action
    if "unreadable" in report:
        return None
    return ("green" in report and "green" in read) / 2 + ("twice" in report) / 2
'''


@pytest.fixture
def judged(files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SearchQA:
    (tmp_path / "documents_judge.py").write_text(JUDGE)
    monkeypatch.syspath_prepend(str(tmp_path))
    return SearchQA(**files, score="documents_judge:judge")


@pytest.mark.parametrize(
    ("report", "opened", "score"),
    [
        ("The green key, pressed twice.", True, 1.0),
        ("The green key, pressed twice.", False, 0.5),
        ("The red key.", True, 0.0),
        ("unreadable", True, 0.0),
    ],
)
def test_a_judge_scores_the_report_with_the_pages_that_were_read(
    judged: SearchQA, report: str, opened: bool, score: float
):
    judged.reset(seed=0, options={"task": "question/1"})
    if opened:
        judged.step("open[guide/use]")
    unread = report == "unreadable"
    with pytest.warns(RuntimeWarning, match="cannot be read") if unread else nullcontext():
        text, reward, ended, _, info = judged.step(f"report[{report}]")
    assert ended and reward == score and info["success"] == (score >= 0.5)
    assert ("cannot be read" in text) == unread == info.get("unjudged", False)
    assert ("unjudged" in judged.restore(judged.snapshot())[1]) == unread


def test_a_report_is_no_answer_and_has_a_limit(judged: SearchQA, files: Files):
    judged.reset(seed=0)
    for action in ("answer[green]", f"report[{'x' * (REPORT + 1)}]", "report[]"):
        _, reward, ended, _, info = judged.step(action)
        assert not info["valid"] and not ended and reward == 0
    assert judged.step(f"report[{'x' * REPORT}]")[2]
    assert "report[...]" in judged.instructions and "answer[" not in judged.instructions
    plain = SearchQA(**files)
    plain.reset(seed=0)
    assert not plain.step("report[green]")[4]["valid"]


def test_the_judge_reads_the_question_its_answer_and_whole_pages(
    judged: SearchQA, monkeypatch: pytest.MonkeyPatch
):
    seen: list[RecordedEpisode] = []
    module: Any = import_module("documents_judge")
    found = module.judge
    monkeypatch.setattr(module, "judge", lambda episode: seen.append(episode) or found(episode))
    outcome_judge.cache_clear()
    judged.reset(seed=0, options={"task": "question/1"})
    judged.step("open[guide/use]")
    judged.step("report[green, twice]")
    outcome_judge.cache_clear()
    [episode] = seen
    assert [turn.action for turn in episode.turns] == [
        "open[guide/use]",
        "report[green, twice]",
    ]
    assert "Which key" in episode.turns[0].observation and "green" in episode.turns[0].observation
    assert episode.turns[1].observation == f"guide/use: {TEXTS['guide/use.txt']}"


def test_a_rubric_that_shows_the_outcome_is_refused(tmp_path: Path, files: Files):
    rubric = tmp_path / "rubric.md"
    rubric.write_text("- facts: Are they right?\noutcome: shown\n")
    with pytest.raises(ConfigError, match="outcome: hidden"):
        SearchQA(**files, score=f"rubric={rubric}:chat:m@http://127.0.0.1:9/v1")


@pytest.mark.slow
def test_certify_finds_nothing_in_documents(files: Files):
    report = certify("SearchQA-v0", {**files}, Budget(tasks=2, search=50, prints=2))
    assert report.verdict == "pass", report.findings
