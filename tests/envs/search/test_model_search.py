"""A language model as the search engine of `SearchQA-v0`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentgym.envs.search.documents import load_documents
from agentgym.envs.search.search_qa import SearchQA
from agentgym.errors import ConfigError

from ...helpers.chat_server import ChatServer, Messages, chat_server

QUESTIONS = [
    {"question": "Who wrote The Silver Lantern?", "answer": "Ada Brin"},
    {"question": "When was it published?", "answer": "1950"},
]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ChatServer]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))

    def engine(messages: Messages) -> str:
        query = messages[-1]["content"]
        if "nothing" in query:
            return "I do not know."
        name = "Lantern" if "lantern" in query else "Moon"
        return (
            f"<think>Page: A: b</think>Here:\n- **Page:** The {name}: A book by Ada Brin.\n"
            f"Page: the   author: She wrote it in 1950.\nPage: The {name}: Another one.\nPage: x\n"
            "Page: : y"
        )

    with chat_server(engine) as running:
        yield running


@pytest.fixture
def env(server: ChatServer, tmp_path: Path) -> Iterator[SearchQA]:
    file = tmp_path / "questions.jsonl"
    file.write_text("".join(json.dumps(each) + "\n" for each in QUESTIONS))
    load_documents.cache_clear()
    yield SearchQA(corpus=f"chat:m@{server.url}", questions=str(file))
    load_documents.cache_clear()


def test_the_pages_of_a_query_are_those_that_the_model_writes(env: SearchQA, server: ChatServer):
    env.reset(seed=0, options={"task": "question/0"})
    assert env.expert() is None
    assert not env.step("open[The Lantern]")[4]["valid"]  # nothing was searched
    observation, *_ = env.step("search[silver lantern]")
    assert "- The Lantern: A book by Ada Brin" in observation and "the author: She" in observation
    assert "Another" not in observation and "A: b" not in observation
    assert observation.count("\n- ") == 1
    assert "A book by Ada Brin." in env.step("open[the lantern]")[0]
    assert "She wrote it" in env.step("open[The Author]")[0]
    observation, *_ = env.step("search[the moon]")
    assert "The Moon" in observation and not env.step("open[The Lantern]")[4]["valid"]
    assert "No results." in env.step("search[nothing]")[0]
    *_, info = env.step("answer[Ada Brin]")
    assert info["success"]
    asked = len(server.requests)
    assert asked == 3
    # Another episode and another process find the same pages without a request.
    env.reset(seed=1, options={"task": "question/1"})
    env.step("search[silver lantern]")
    twin = SearchQA(corpus=env._pages, questions=env._questions)
    twin.restore(env.snapshot())
    assert "A book by Ada Brin." in twin.step("open[The Lantern]")[0]
    assert len(server.requests) == asked


def test_judges_need_pages_of_documents(env: SearchQA):
    with pytest.raises(ConfigError, match="reads pages of documents"):
        SearchQA(corpus=env._pages, questions=env._questions, score=f"{__name__}:fine")
    with pytest.raises(ConfigError, match="chat:MODEL@URL"):
        SearchQA(corpus="chat:m", questions=env._questions)


def fine(episode: object) -> float:
    return 1.0
