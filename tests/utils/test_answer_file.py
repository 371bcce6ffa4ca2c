"""Answers of a served model on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentgym.utils.answer_file import AnswerFile


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path))


def asked(file: AnswerFile, *questions: str) -> list[str]:
    """Returns the questions that the model is asked."""
    found: list[str] = []

    def ask(some: list[str]) -> list[str]:
        found.extend(some)
        return [f"answer to {each!a}" for each in some]

    assert file(questions, ask) == [f"answer to {each!a}" for each in questions]
    return found


def test_answers_after_half_a_line_of_a_killed_process_are_kept():
    first = AnswerFile("model")
    assert asked(first, "a", "b") == ["a", "b"]
    whole = first.path.read_text(encoding="utf-8").rstrip()
    first.path.write_text(whole[:-5], encoding="utf-8")
    assert asked(AnswerFile("model"), "a", "b", "c") == ["b", "c"]
    assert asked(AnswerFile("model"), "a", "b", "c") == []


def test_any_text_may_be_asked():
    text = "half a pair: \ud800"
    assert asked(AnswerFile("model"), text) == [text]
    assert asked(AnswerFile("model"), text) == []
