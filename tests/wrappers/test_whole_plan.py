"""`WholePlan`: plans from the start, feedback on the first fault, several attempts."""

from __future__ import annotations

import json

import gymnasium
import pytest

from agentgym.envs.numbers.number_line import NumberLine
from agentgym.envs.planning.blocksworld import Blocksworld
from agentgym.errors import ConfigError
from agentgym.wrappers import WholePlan, whole_plan
from agentgym.wrappers.whole_plan import actions_of


def solution(env: Blocksworld, task: str) -> list[str]:
    env.reset(seed=0, options={"task": task})
    actions, over = [], False
    while not over:
        actions.append(env.expert() or "")
        over = env.step(actions[-1])[2]
    return actions


def test_lines_of_a_plan():
    assert actions_of("1. pick up b1\n2) stack b1 on b2\n\n- put down b3\nwait") == [
        "pick up b1", "stack b1 on b2", "put down b3", "wait",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "plan",
    [
        "I will move the tower as follows:\n\n1. up\n2. down\n\nSo the goal is reached.",
        "Sure.\n**Step 1:** up\n**Step 2:** down",
        "1. up\n   - It needs: room\n   - It gives: height\n\n2. down\n   So I am back.",
        "### Start:\n- low.\n- free.\n\n### Plan:\n1. up\n2. down\n\nNow this holds:\n- low",
        "- up\n- down\n\nThat is all there is to it.",
        "Two moves do it:\nup\ndown",
        "It is short.\n[PLAN]\nup\ndown\n[PLAN END]\n\nCheck:\n1. up is free.",
        "up\ndown\n[PLAN END]",
        "Here you are:\n```text\nup\ndown\n```\nI hope it helps.",
        "1. **up**: it is free\n2. **down**: as before\n\n**In short:**\n1. up\n2. down",
        "1. up\n2. down\n\nWhy:\n1. up as it is free\n2. down as before",
    ],
)
def test_remarks_are_no_actions_of_a_plan(plan: str):
    assert actions_of(plan) == ["up", "down"]


@pytest.mark.parametrize(
    "plan", ["1. up\n2. down\n\nBetter:\n1. up\n2. up", "1. up\n2. down\n\nOr:\n1. up"]
)
def test_one_of_two_plans_is_never_taken(plan: str):
    env = WholePlan(NumberLine())
    env.reset(seed=0)
    text, *_, info = env.step(plan)
    assert text.startswith("The plan has several numbered lists.") and not info["valid"]


@pytest.mark.parametrize(
    "plan",
    [
        "1. up\n2. down\n\nWait, that is wrong. The right plan is:\n\nup\nup",
        "1. up\n2. down\n\nCorrection:\n- up\n- up",
        "- up\n- down\n\nOr alternatively:\n- up\n- up",
        "Plan A:\n- up\n- down\n\nPlan B:\n- up\n- up",
        "up\ndown\n\nAlternatively:\nup\nup",
        "Not this:\n```\nup\ndown\n```\nBut this:\n1. up\n2. up",
        "Here you are:\n```\nup\ndown\n```\nWait, no: up twice.",
    ],
)
def test_a_plan_that_a_remark_takes_back_is_not_played(plan: str):
    with pytest.raises(ValueError, match="takes it back"):
        actions_of(plan)


@pytest.mark.parametrize(
    "plan",
    [
        "1. stack b1 on b2\n\nPlan 2:\n1. stack b2 on b1",
        "1. up\n2. down\n\nMore precisely:\n1. up twice\n2. down",
        "```\nup\ndown\n```\n\n```\nup\nup\n```",
    ],
)
def test_plans_of_the_same_words_may_be_two(plan: str):
    with pytest.raises(ValueError, match="several numbered lists"):
        actions_of(plan)


def test_numbers_that_are_all_one_are_one_list():
    assert actions_of("1. up\n1. down\n1. up") == ["up", "down", "up"]


def test_a_plan_in_prose_reaches_the_goal():
    lines = solution(Blocksworld(), "test/0")
    plan = "\n\n".join(f"{i}. **{line.capitalize()}.** (Easy)" for i, line in enumerate(lines, 1))
    env = WholePlan(Blocksworld())
    env.reset(seed=0, options={"task": "test/0"})
    text, *_, info = env.step(f"This is the plan:\n\n{plan}\n\nIt reaches the goal.")
    assert info["success"] and text.startswith("The plan reaches the goal.")


@pytest.mark.parametrize("mystery", [False, True])
def test_a_right_plan_succeeds_after_a_wrong_one(mystery: bool):
    plan = solution(Blocksworld(mystery=mystery), "test/0")
    env = WholePlan(Blocksworld(mystery=mystery))
    first, info = env.reset(seed=0, options={"task": "test/0"})
    assert info["admissible"] == () and info["turn"] == 0
    faulty = [*plan[:2], "fly", *plan[2:]]
    text, reward, terminated, truncated, info = env.step("\n".join(faulty))
    assert text.startswith("Step 3 of the plan, 'fly', fails.") and text.endswith(first)
    assert (reward, terminated, truncated) == (0, False, False)
    assert (info["valid"], info["plan_steps"], info["turn"]) == (False, 2, 1)
    text, *_, info = env.step("\n".join(plan[:-1]))
    assert text.startswith("All steps of the plan are possible, but") and info["valid"]
    saved = json.loads(json.dumps(env.snapshot()))
    for _ in range(2):
        _, reward, terminated, truncated, info = env.step("\n".join(plan))
        assert (reward, terminated, truncated, info["success"]) == (1, True, False, True)
        assert info["plan_steps"] == len(plan)
        env.restore(saved)


def test_the_last_attempt_is_truncated():
    env = WholePlan(Blocksworld(), attempts=1)
    env.reset(seed=0)
    text, _, terminated, truncated, info = env.step("")
    assert (terminated, truncated, info["valid"]) == (False, True, False)
    assert text.startswith("The plan has no actions.")
    with pytest.raises(ConfigError):
        WholePlan(Blocksworld(), attempts=0)


def test_the_plan_of_an_expert_without_an_end_has_one(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(whole_plan, "MANY_TURNS", 20)
    monkeypatch.setattr(NumberLine, "expert", lambda self: "?")
    env = WholePlan(NumberLine(max_turns=None))
    env.reset(seed=0)
    assert env.expert() == "\n".join("?" * 20)


def test_every_plan_has_all_turns_of_a_time_limit():
    env = WholePlan(gymnasium.make("AgentGym/NumberLine-v0", max_episode_steps=3))
    env.reset(seed=0)
    for _ in range(3):
        assert env.expert() == "+\n+\n+"
        assert env.step("-\n-\n-\n-")[4]["plan_steps"] == 3
