"""Values of a search by a judge of its own: a served model, a function, a reward model."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import agentgym.agents as agents
from agentgym.agents import SearchAgent, View, make_agent
from agentgym.agents.search.action_judges import UNKNOWN, read_score
from agentgym.errors import ConfigError
from agentgym.evaluation import evaluate

from ..helpers.chat_server import ChatServer, Messages, chat_server

NUMBERS: dict[str, Any] = {"tasks": 6, "env_kwargs": {"size": 8}}


def towards(text: str, action: str) -> bool:
    """Whether an action of NumberLine goes towards the goal."""
    position, goal = map(int, re.findall(r"You are at (\d+)\. Go to (\d+)", text)[-1])
    return action == ("+" if position < goal else "-")


def direction(view: View, action: str) -> float:
    return float(towards(view.observation, action))


def endless(view: View, action: str) -> float:
    return float("inf")


def grade(messages: Messages) -> str:
    text = messages[-1]["content"]
    return f"score: {9 if towards(text, text.rpartition(': ')[2]) else 1}"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ChatServer]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path))
    with chat_server(grade) as running:
        yield running


@pytest.mark.parametrize("algorithm", ["best_first", "beam"])
def test_a_model_that_knows_the_way_leads_the_search(server: ChatServer, algorithm: str):
    spec = f"search:{algorithm},budget=2,value=chat:m@{server.url}"
    found = evaluate("NumberLine-v0", spec, **NUMBERS)
    expert = evaluate("NumberLine-v0", "expert", **NUMBERS)
    assert [each.turns for each in found.episodes] == [each.turns for each in expert.episodes]
    user = server.requests[0][-1]["content"]
    assert "Observation: You are at" in user and re.search(r"\n\nNext action: [+-]$", user)
    asked = len(server.requests)
    again = evaluate("NumberLine-v0", spec, **NUMBERS)
    assert again.episodes == found.episodes and len(server.requests) == asked


def test_unreadable_replies_are_counted(server: ChatServer):
    server.reply = lambda messages: "It looks good."
    agent = make_agent(f"search:best_first,budget=2,value=chat:m@{server.url}")
    assert isinstance(agent, SearchAgent)
    report = evaluate("NumberLine-v0", agent, tasks=2, env_kwargs={"size": 8})
    judge = agent.settings.judge
    assert judge.unread == sum(each.costs["unread_values"] for each in report.episodes) > 0
    view = View.of_text("", "You are at 2. Go to 5.")
    assert judge.scores([view], ["+"]) == [UNKNOWN]


@pytest.mark.parametrize(
    ("reply", "score"),
    [
        *(("score: 7", 0.7), ("7", 0.7), ("**Score: 7/10**", 0.7), ("Good.\nscore: 10.", 1.0)),
        ("<think>score: 1</think>score: 4.5", 0.45),
        *(("", None), ("score: 11", None), ("score: 7\nscore: 3", None), ("7 of 10", None)),
        *(("score: high", None), ("<think>score: 7", None), ("between 3 and 7", None)),
    ],
)
def test_a_score_is_the_only_number_of_its_line(reply: str, score: float | None):
    assert read_score(reply) == score


def test_a_function_leads_the_search():
    spec = f"search:best_first,budget=2,value={__name__}:direction"
    found = evaluate("NumberLine-v0", spec, **NUMBERS)
    expert = evaluate("NumberLine-v0", "expert", **NUMBERS)
    assert [each.turns for each in found.episodes] == [each.turns for each in expert.episodes]
    with pytest.raises(ConfigError, match="must return a finite number"):
        evaluate("NumberLine-v0", f"search:beam,value={__name__}:endless", **NUMBERS)
    with pytest.raises(ConfigError, match="value must name a module:function"):
        make_agent("search:beam,value=nowhere:here")


def test_a_reward_model_of_another_run_judges_the_actions(monkeypatch: pytest.MonkeyPatch):
    """The policy that proposes actions need not be the model's."""
    model: Any = SimpleNamespace(
        whole=False,
        tokens=0,
        scores=lambda views, actions: [*map(direction, views, actions)],
    )
    loaded: list[str] = []

    def load(folder: str) -> Any:
        loaded.append(folder)
        return model

    monkeypatch.setattr(agents, "load_env_creator", lambda entry: load)
    agent = make_agent("search:beam,budget=2,policy=random,width=9,value=judge:runs/orm")
    report = evaluate("NumberLine-v0", agent, **NUMBERS)
    assert loaded == ["runs/orm"] and all(each.success for each in report.episodes)
    with pytest.raises(ConfigError, match="goes with value=judge"):
        SearchAgent("beam", judge=model)
