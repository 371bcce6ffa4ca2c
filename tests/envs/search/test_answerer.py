"""A frozen model that answers from the pages that an agent has opened."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.envs.search.search_qa import SearchQA
from agentgym.errors import ConfigError
from agentgym.wrappers import CodeAction

from ...helpers.chat_server import ChatServer, Messages, chat_server
from .test_documents import QUESTIONS, TEXTS, Files, expert_play, folder, lines


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ChatServer]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))

    def reader(messages: Messages) -> str:
        text = messages[-1]["content"]
        if "Which key" in text:
            return "<think>Green?</think>\nAnswer: **green**." if "green key" in text else "Red"
        return "Answer: 40\nAnswer: 50" if "degrees" in text else "I cannot say."

    with chat_server(reader) as running:
        yield running


@pytest.fixture
def files(tmp_path: Path) -> Files:
    questions = lines(tmp_path / "questions.jsonl", QUESTIONS)
    return {"corpus": folder(tmp_path / "docs", TEXTS), "questions": questions}


@pytest.fixture
def env(files: Files, server: ChatServer) -> SearchQA:
    return SearchQA(**files, answerer=f"chat:m@{server.url}")


@pytest.mark.parametrize(("opened", "score"), [(("guide/use",), 1.0), (("faq",), 0.0), ((), 0.0)])
def test_the_answerer_reads_the_opened_pages_and_nothing_else(
    env: SearchQA, server: ChatServer, opened: tuple[str, ...], score: float
):
    env.reset(seed=0, options={"task": "question/1"})
    for title in opened:
        env.step(f"open[{title}]")
    text, reward, ended, _, info = env.step("answer[]")
    assert ended and reward == score and info["success"] == bool(score)
    assert ("'green'" if score else "'Red'") in text
    [request] = server.requests
    asked = request[-1]["content"]
    assert asked.endswith("Question: Which key starts the pump?")
    assert all(
        (text in asked) == (name.partition(".")[0] in opened) for name, text in TEXTS.items()
    )


def test_the_expert_leaves_the_answer_to_the_answerer(env: SearchQA):
    actions, total, info = expert_play(env, "question/1")
    assert actions[-1] == "answer[]" and total == 1 and info["success"] and info["progress"] == 1
    assert "answer[]: another model" in env.instructions and "Ada Brin" not in env.instructions


def test_a_reply_with_two_answers_is_none(env: SearchQA):
    env.reset(seed=0, options={"task": "question/2"})
    text, reward, ended, *_ = env.step("answer[]")
    assert ended and reward == 0 and "The answer is ''. Wrong." in text


def test_equal_pages_get_an_equal_answer_without_a_request(env: SearchQA, server: ChatServer):
    env.reset(seed=0, options={"task": "question/1"})
    env.step("open[guide/use]")
    before = env.snapshot()
    assert env.step("answer[]")[1] == 1
    twin = SearchQA(corpus=env._pages, questions=env._questions, answerer=env.answerer)
    twin.restore(before)
    assert twin.step("answer[]")[1] == 1 and len(server.requests) == 1


READER = (
    "def read(question, pages):\n    return 4 if 'memory' in question else ' '.join(pages)[:5]\n"
)


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "answerer_of_tests.py").write_text(READER)
    monkeypatch.syspath_prepend(str(tmp_path))
    return "answerer_of_tests:read"


def test_a_function_may_answer_and_must_return_a_text(files: Files, reader: str):
    env = SearchQA(**files, answerer=reader)
    env.reset(seed=0, options={"task": "question/1"})
    env.step("open[guide/use]")
    assert "'guide'" in env.step("answer[]")[0]
    env.reset(seed=0, options={"task": "question/0"})
    with pytest.raises(ConfigError, match="must return a text, got 4"):
        env.step("answer[]")


@settings(deadline=None, max_examples=50)
@given(text=st.text(min_size=1).filter(str.strip))
def test_an_answer_of_the_agent_is_refused_and_not_thrown_away(text: str):
    env = SearchQA(answerer="json:dumps")
    env.reset(seed=0)
    for action in (f"answer[{text}]", "answer", "search[]", "open[]"):
        observation, reward, ended, _, info = env.step(action)
        assert not info["valid"] and not ended and reward == 0
        assert "Reply with search[words], open[title] or answer[]." in observation


def test_answerers_that_cannot_work_are_refused(files: Files, tmp_path: Path):
    with pytest.raises(ConfigError, match="Expected score='em' or 'f1' with an answerer"):
        SearchQA(**files, answerer="json:dumps", score="json:dumps")
    known = lines(tmp_path / "known.jsonl", [{"question": "Who?", "answer": "Ada"}] * 2)
    with pytest.raises(ConfigError, match="An answerer reads pages of documents"):
        SearchQA(corpus="chat:m@http://127.0.0.1:9", questions=known, answerer="json:dumps")
    with pytest.raises(ConfigError, match="answerer"):
        SearchQA(**files, answerer="nobody")


def test_python_is_a_second_tool(env: SearchQA):
    tools = CodeAction(env)
    tools.reset(seed=0, options={"task": "question/1"})
    program = "text = act('open[guide/use]')\nprint(sum('key' in line for line in text.split('.')))"
    observation, *_ = tools.step(f"```python\n{program}\n```")
    assert observation.strip() == "2"
    assert tools.step("answer[]")[4]["success"]
