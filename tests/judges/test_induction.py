"""Rubrics from notes and symptoms: what they cover, and that judges read them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentgym.data.reading import read_episodes
from agentgym.errors import DataError
from agentgym.evaluation import evaluate
from agentgym.judges.induction import CLUSTER, MATCH, SYMPTOM, induced, read_criteria, symptoms
from agentgym.judges.rubric import read_rubric

from ..helpers.chat_server import ChatServer, Messages, chat_server

NOTES = ["It is slow.", "It guesses.", "Too slow again.", "It guesses and is slow.", "Rude!"]


def reply(messages: Messages) -> str:
    """Finds slowness first, then guessing, and never rudeness."""
    system, text = messages[0]["content"], messages[-1]["content"]
    if system == SYMPTOM:
        assert "the task was not solved" in text
        place = re.findall(r"You are at (\d+)", text)[-1]
        return f"Stops at {place}.\nBecause."
    if system == MATCH:
        criteria, _, note = text.partition("Note: ")
        kinds = {"slow": "speed", "guess": "care"}
        names = re.findall(r"^\d+\. (\w+):", criteria, re.MULTILINE)
        found = [str(names.index(k) + 1) for w, k in kinds.items() if w in note and k in names]
        return ", ".join(found) or "none"
    assert system == CLUSTER
    if "They miss" not in text:
        return "<think>- x: y</think>I see:\n- **speed**: It is quick.\n- speed: Twice.\nDone."
    assert "- It guesses.\n- Rude!" in text and "Earlier criteria:\n1. speed" in text
    return "- speed: It is quick.\n* care: It knows before it acts."


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ChatServer]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))
    with chat_server(reply) as running:
        yield running


def test_notes_become_criteria_that_cover_more_and_more(server: ChatServer, tmp_path: Path):
    source = f"chat:m@{server.url}"
    once = induced(source, NOTES, rounds=1)
    assert [each.name for each in once.rubric.criteria] == ["speed"]
    assert (once.coverage, once.redundancy) == (3 / 5, 0)
    found = induced(source, NOTES, rounds=2)
    assert [each.name for each in found.rubric.criteria] == ["speed", "care"]
    assert found.matches == ((0,), (1,), (0,), (0, 1), ())
    assert (found.coverage, found.redundancy) == (4 / 5, 1 / 4)
    found.save(tmp_path / "rubric.md")
    assert read_rubric(tmp_path / "rubric.md").criteria == found.rubric.criteria
    asked = len(server.requests)
    assert induced(source, NOTES, rounds=2) == found and len(server.requests) == asked


def test_symptoms_of_failures_are_notes(server: ChatServer, tmp_path: Path):
    file = tmp_path / "episodes.jsonl"
    evaluate("NumberLine-v0", "random", tasks=12, env_kwargs={"max_turns": 4}, save=file)
    episodes = read_episodes(file)
    failed = [each for each in episodes if not each.success]
    found = symptoms(f"chat:m@{server.url}", episodes)
    assert 0 < len(failed) < 12 and len(found) == len(failed)
    for line, episode in zip(found, failed, strict=True):
        place = re.findall(r"You are at (\d+)", episode.last_observation)[-1]
        assert line == f"Stops at {place}."
    assert symptoms("chat:m@http://127.0.0.1:9/v1", []) == []


def test_without_notes_or_criteria_there_is_no_rubric(server: ChatServer):
    with pytest.raises(DataError, match="there are none"):
        induced(f"chat:m@{server.url}", ["", " "])
    server.reply = lambda messages: "I cannot."
    with pytest.raises(DataError, match="no criterion in 2 replies"):
        induced(f"chat:m@{server.url}", ["It waits."])


def test_a_reply_about_a_note_that_cannot_be_read_does_not_count(server: ChatServer):
    def vague(messages: Messages) -> str:
        if messages[0]["content"] != MATCH or "guess" not in messages[-1]["content"]:
            return reply(messages)
        return "7" if "slow" in messages[-1]["content"] else "Perhaps the first?"

    server.reply = vague
    found = induced(f"chat:m@{server.url}", NOTES, rounds=1)
    assert found.matches == ((0,), None, (0,), None, ())
    assert (found.coverage, found.redundancy) == (2 / 3, 0)


def test_criteria_are_lines_with_a_name():
    text = "1. no\n- a b: C d.\n-nothing: x\n- (x): y\n* A B: again\n- c: d: e"
    assert [(each.name, each.text) for each in read_criteria(text)] == [
        ("a b", "C d."),
        ("c", "d: e"),
    ]
