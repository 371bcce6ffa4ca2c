"""`AskExpert`: answers, costs, the budget, and help that pays."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agentgym.agents import View
from agentgym.envs.numbers.number_line import NumberLine
from agentgym.errors import ConfigError
from agentgym.evaluation import evaluate
from agentgym.wrappers import AskExpert
from agentgym.wrappers.ask_expert import PROMPT

from ..helpers.chat_server import Messages, chat_server
from ..helpers.echo import DictEcho, Echo


def test_an_answer_is_the_experts_action_and_takes_no_turn():
    env = AskExpert(NumberLine(size=6), cost=0.25, budget=2)
    start, info = env.reset(seed=0)
    assert info["admissible"] == ("+", "-", "ask") and info["questions_left"] == 2
    advice = env.get_wrapper_attr("expert")()
    observation, reward, terminated, truncated, info = env.step(" Ask ")
    assert observation == f"Expert: {advice}\n\n{start}"
    assert (reward, terminated, truncated) == (-0.25, False, False)
    assert info["reward_terms"] == {"task": 0.0, "invalid": 0.0, "questions": -0.25}
    assert (info["turn"], info["valid"], info["questions_left"]) == (0, True, 1)
    observation, _, _, _, info = env.step(advice)
    assert not observation.startswith("Expert:") and info["turn"] == 1
    assert info["reward_terms"]["questions"] == 0


def test_questions_beyond_the_budget_are_invalid_actions():
    env = AskExpert(NumberLine(size=6, invalid_penalty=0.5), budget=1)
    env.reset(seed=0)
    assert "ask" not in env.step("ask")[4]["admissible"]
    observation, reward, *_, info = env.step("ask")
    assert "No questions are left." in observation and not info["valid"]
    assert reward == -0.5 and info["turn"] == 1
    assert env.reset(seed=0)[1]["questions_left"] == 1


def test_no_advice_counts_but_costs_nothing():
    env = AskExpert(Echo())  # it has no expert
    env.reset(seed=0)
    observation, reward, *_, info = env.step("ask")
    assert observation.startswith("The expert has no advice.\n\nstart ")
    assert reward == 0 and info["questions_left"] == 2
    assert info["admissible"] == ()  # an open set


@pytest.mark.parametrize("left", [-1, 4, "2", True])
def test_a_damaged_snapshot_changes_nothing(left: Any):
    env = AskExpert(NumberLine(size=6))
    env.reset(seed=0)
    env.step("ask")
    snapshot = env.snapshot() | {"memory": {"left": left, "advice": "", "over": False, "turns": []}}
    with pytest.raises(Exception, match="snapshot"):
        env.restore(snapshot)
    assert env.step("ask")[4]["questions_left"] == 1


class Beginner:
    """Asks while it may, follows the answers, and else goes the wrong way."""

    name = "beginner"

    def act(self, views: Sequence[View]) -> list[str]:
        return [self._one(view) for view in views]

    def _one(self, view: View) -> str:
        expert, _, advice = view.observation.partition("\n")[0].partition("Expert: ")
        if not expert and advice:
            return advice
        if "ask" in view.info["admissible"]:
            return "ask"
        wrong = {"+": "-", "-": "+"}
        return wrong[view.env.get_wrapper_attr("expert")()]


def test_help_pays_if_it_is_cheap_and_suffices():
    def reward(cost: float, budget: int) -> float:
        kwargs = {"size": 6, "wrap": [f"AskExpert:cost={cost},budget={budget}"]}
        report = evaluate("NumberLine-v0", Beginner(), tasks=10, env_kwargs=kwargs)
        return report.aggregate()["reward"].mean

    assert reward(0, 9) == 1
    assert 0.5 < reward(0.01, 9) < 1
    assert reward(0.01, 1) < 0.5


def test_arguments_are_checked():
    with pytest.raises(ConfigError, match="cost must be at least 0, got -1"):
        AskExpert(Echo(), cost=-1)
    with pytest.raises(ConfigError, match="budget must be at least 1, got 0"):
        AskExpert(Echo(), budget=0)
    with pytest.raises(ConfigError, match="observations are text"):
        AskExpert(DictEcho())  # type: ignore[arg-type]


def right(messages: Messages) -> str:
    """Answers with the way to the target, and nothing at the first turn."""
    text = messages[-1]["content"]
    assert messages[0]["content"] == PROMPT and NumberLine.instructions in text
    if "Action: " not in text:
        return "<think>hm</think>"
    position, target = map(int, re.findall(r"at (\d+)\. Go to (\d+)", text)[-1])
    return "+" if target > position else "-"


def test_a_model_helps_from_what_the_agent_has_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))
    with chat_server(right) as server:
        env = AskExpert(NumberLine(size=9), cost=0.25, helper=f"chat:m@{server.url}")
        env.reset(seed=0)
        observation, reward, *_ = env.step("ask")
        assert observation.startswith("The expert has no advice.") and reward == 0
        env.step("nonsense")
        observation, reward, *_ = env.step("ask")
        assert observation.startswith(f"Expert: {env.env.get_wrapper_attr('expert')()}\n")
        assert reward == -0.25 and "Action: nonsense" in server.requests[-1][-1]["content"]
        twin = AskExpert(NumberLine(size=9), cost=0.25, helper=f"chat:m@{server.url}")
        twin.restore(env.snapshot())
        assert twin.step("ask")[0] == env.step("ask")[0] and len(server.requests) == 2


def test_a_person_helps(monkeypatch: pytest.MonkeyPatch):
    asked: list[str] = []
    answers = iter(["+ ", ""])
    monkeypatch.setattr("builtins.input", lambda text: asked.append(text) or next(answers))
    env = AskExpert(NumberLine(size=9), helper="human")
    start, _ = env.reset(seed=0)
    assert env.step("ask")[0].startswith("Expert: +\n")
    assert env.step("ask")[0].startswith("The expert has no advice.")
    assert start in asked[0] and asked[0].endswith("Next action: ")

    def closed(text: str) -> str:
        raise EOFError

    monkeypatch.setattr("builtins.input", closed)
    assert env.step("ask")[0].startswith("The expert has no advice.")
    with pytest.raises(ConfigError, match="helper must be 'expert', 'human'"):
        AskExpert(NumberLine(), helper="friend")
