"""Heuristics in code: as the value of a search, and written by a language model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.agents import make_agent
from agentgym.agents.search.agent import SearchAgent
from agentgym.agents.search.code_value import CodeValue
from agentgym.errors import ConfigError, DataError
from agentgym.evaluation import evaluate
from agentgym.evaluation.heuristics import write_heuristic

from ..helpers.chat_server import ChatServer, Messages, chat_server

# The largest disks count only once they lie on rod C from the bottom up.
GOOD = """
import re

def value(observation):
    rods = dict(re.findall(r"([ABC]): (.*)", observation))
    here = [int(each) for each in re.findall(r"[0-9]+", rods["C"])]
    disks = sorted((int(each) for each in re.findall(r"[0-9]+", observation)), reverse=True)
    done = 0
    while done < len(here) and here[done] == disks[done]:
        done += 1
    return done / len(disks)
"""
BAD = "def value(observation):\n    return -len(observation)\n"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ChatServer]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))
    written = {"1": "def value(x):\n return (", "2": BAD, "3": GOOD, "4": "nothing"}
    snippet = "A rod is read by\n```python\nre.findall('[0-9]+', rod)\n```\n"

    def writer(messages: Messages) -> str:
        number = messages[-1]["content"].rpartition("Heuristic ")[2][0]
        code = written[number]
        if number == "4":
            return f"{snippet}{code}"
        return f"<think>```a```</think>{snippet}So:\n```python\n{code}\n```"

    with chat_server(writer) as running:
        yield running


def test_the_best_heuristic_of_training_tasks_is_kept_and_plans(server: ChatServer, tmp_path: Path):
    file, source = str(tmp_path / "hanoi.py"), f"chat:m@{server.url}"
    found = write_heuristic("TowerOfHanoi-v0", source, file, count=4, tasks=8, budget=40)
    assert [bool(each.problem) for each in found] == [True, False, False, True]
    assert "code block" in found[3].problem and "runs" in found[0].problem
    assert (
        found[2].success > found[1].success
        and Path(file).read_text("utf-8").strip() == GOOD.strip()
    )
    asked = server.requests[0][-1]["content"]
    assert "Tower of Hanoi" in asked and asked.count("An observation:") == 3
    report = evaluate("TowerOfHanoi-v0", f"search:best_first,value=code:{file},budget=40", tasks=20)
    assert report.aggregate()["success"].mean >= found[2].success - 0.25
    assert not any(episode.costs.get("unread_values") for episode in report.episodes)
    # A second call asks nothing.
    count = len(server.requests)
    assert write_heuristic("TowerOfHanoi-v0", source, file, count=4, tasks=8, budget=40) == found
    assert len(server.requests) == count


def test_replies_without_a_program_that_runs_are_named(server: ChatServer, tmp_path: Path):
    with pytest.raises(DataError, match=r"(?s)wrote no heuristic .* that runs:.*SyntaxError"):
        write_heuristic("TowerOfHanoi-v0", f"chat:m@{server.url}", str(tmp_path / "no"), count=1)
    assert not (tmp_path / "no").exists()


@settings(deadline=None, max_examples=30)
@given(texts=st.lists(st.text(max_size=30), max_size=4))
def test_any_text_has_a_value(texts: list[str]):
    judge = CodeValue("def value(text):\n    print(text)\n    return len(text)\n")
    assert judge.values(texts) == [float(len(text)) for text in texts] and judge.unread == 0


@pytest.mark.parametrize(
    "result", ["None", "'x'", "float('nan')", "float('inf')", "1 / 0", "open('/etc/passwd')"]
)
def test_what_is_no_number_counts_as_unread(result: str):
    judge = CodeValue(f"def value(text):\n    return {result} if text == 'b' else 0.5\n")
    assert judge.values(["a", "b", "c"]) == [0.5, 0.0, 0.5] and judge.unread == 1


def test_a_program_without_end_values_nothing():
    judge = CodeValue("def value(text):\n    while True:\n        pass\n")
    assert judge.values(["a", "b"]) == [0.0, 0.0] and judge.unread == 2


@pytest.mark.parametrize(
    ("code", "message"),
    [("def value(", "that runs"), ("x = 1", "that defines value"), ("1 / 0", "runs")],
)
def test_programs_that_cannot_work_are_refused(code: str, message: str, tmp_path: Path):
    (tmp_path / "code.py").write_text(code)
    with pytest.raises(ConfigError, match=message):
        make_agent(f"search:mcts,value=code:{tmp_path / 'code.py'}")


def test_values_in_code_need_a_program():
    with pytest.raises(ConfigError, match="value=code:FILE"):
        SearchAgent("mcts", value="code")
    with pytest.raises(ConfigError, match="A judge goes with value=judge"):
        SearchAgent("mcts", value="progress", judge=CodeValue(GOOD))
    with pytest.raises(DataError, match="expected a program in UTF-8"):
        make_agent("search:mcts,value=code:nowhere.py")
    with pytest.raises(ConfigError, match="count must be at least 1"):
        write_heuristic("TowerOfHanoi-v0", "chat:m@http://127.0.0.1:9", "x", count=0)
