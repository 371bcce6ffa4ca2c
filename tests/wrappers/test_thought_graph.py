"""ThoughtGraph: thoughts follow thoughts, are merged and discarded, and one of them is played."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gymnasium.error import ResetNeeded

from agentgym.agents import View
from agentgym.envs.numbers.number_line import NumberLine
from agentgym.errors import ConfigError
from agentgym.wrappers import ThoughtGraph
from agentgym.wrappers.thought_graph import BLOCKS, PROMPT

from ..helpers.chat_server import ChatServer, Messages, chat_server


def think(rules: str, seen: str, way: list[str], block: str, others: list[str]) -> str:
    """Answers with the way to the target after two steps of reasoning, else wrongly."""
    assert rules == NumberLine.instructions and seen.startswith("You are at")
    words = seen.replace(".", "").split()
    right = "+" if int(words[6]) > int(words[3]) else "-"
    if block == "answer":
        return right if len(way) >= 2 else {"+": "-", "-": "+"}[right]
    return f"{block} after {len(way)}" + f", not {len(others)}" * bool(others)


def number(*_: Any) -> int:
    return 1


def make(**kwargs: Any) -> ThoughtGraph:
    env = ThoughtGraph(NumberLine(size=9, invalid_penalty=0.5), f"{__name__}:think", **kwargs)
    env.reset(seed=3)
    return env


def thoughts(observation: str) -> list[str]:
    return observation.partition("Thoughts:\n")[2].split("\n")


def test_thoughts_follow_each_other_and_the_chosen_one_is_played():
    env = make(cost=0.25)
    turn = env.unwrapped._turn  # type: ignore[attr-defined]
    for action in ("reason 0", "debate 1", "reason 0", "merge 2 3", "answer 4"):
        observation, reward, terminated, truncated, info = env.step(action)
        assert reward == info["reward_terms"]["thoughts"] == -0.25
        assert info["valid"] and not (terminated or truncated)
    assert env.unwrapped._turn == turn and info["thoughts"] == 5  # type: ignore[attr-defined]
    right = str(env.env.get_wrapper_attr("expert")())
    assert thoughts(observation) == [
        "1 (after 0): reason after 0",
        "2 (after 1): debate after 1",
        "3 (after 0): reason after 0, not 1",
        "4 (after 2, 3): merge after 3",
        f"5 (after 4): {right}",
    ]
    before = info["progress"]
    observation, reward, *_, info = env.step("play 5")
    assert "Thoughts" not in observation and info["progress"] > before and info["turn"] == 1
    assert reward == 0 and info["thoughts"] == 5
    # Without reasoning the answer is wrong, and the numbers begin anew.
    observation, *_ = env.step("answer 0")
    assert thoughts(observation)[0].startswith("1 (after 0): ")
    assert env.step("play 1")[4]["progress"] <= before


def test_what_follows_from_a_discarded_thought_goes_too():
    env = make()
    for action in ("reason 0", "reason 1", "reason 0", "merge 2 3", "refine 3"):
        env.step(action)
    observation, *_, info = env.step("discard 1")
    assert [each[0] for each in thoughts(observation)] == ["3", "5"]
    assert "play 5" in info["admissible"] and "play 4" not in info["admissible"]
    assert "merge 3 5" in info["admissible"] and "merge 0 3" not in info["admissible"]
    assert thoughts(env.step("reason 5")[0])[-1] == "6 (after 5): reason after 2"


@pytest.mark.parametrize(
    "action",
    [
        *("", "reason", "reason 7", "reason 0 1", "merge 1", "merge 1 1", "merge 0 1", "discard 0"),
        *("play 0", "sing 1", "+", "play 1 2", "reason 99999999999"),
    ],
)
def test_other_actions_are_invalid_and_change_nothing(action: str):
    env = make()
    before = env.step("reason 0")[0]
    observation, reward, *_, info = env.step(action)
    assert not info["valid"] and reward == -0.5 and "Expected an action such as" in observation
    assert thoughts(observation) == thoughts(before)


def test_size_and_budget_are_limits():
    env = make(size=2, budget=3)
    env.step("reason 0")
    *_, info = env.step("reason 1")
    assert {*info["admissible"]} == {"discard 1", "play 1", "discard 2", "play 2"}
    assert not env.step("reason 1")[4]["valid"]
    *_, terminated, truncated, info = env.step("discard 2")
    assert truncated and not terminated and info["admissible"] == ()
    with pytest.raises(ResetNeeded):
        env.step("play 1")
    env.reset(seed=0)
    env.step("reason 0")


def test_wrong_arguments_are_refused():
    line = NumberLine()
    cases: list[dict[str, Any]] = [{"size": 0}, {"budget": 0}, {"cost": -1.0}]
    for wrong in cases:
        with pytest.raises(ConfigError):
            ThoughtGraph(line, f"{__name__}:think", **wrong)
    with pytest.raises(ConfigError, match="model must name a module:function"):
        ThoughtGraph(line, "expert")
    env = ThoughtGraph(line, f"{__name__}:number")
    env.reset(seed=0)
    with pytest.raises(ConfigError, match="must return a text, got 1"):
        env.step("reason 0")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ChatServer]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))

    def reply(messages: Messages) -> str:
        text = messages[-1]["content"]
        assert messages[0]["content"] == PROMPT and "Observation: You are at" in text
        if text.endswith(BLOCKS["answer"]):
            assert "Steps so far:\n- Look at the numbers." in text
            return "<think>hm</think>\n+\nBecause."
        return "Look again." if "Already there:\n- Look at" in text else "Look at the numbers."

    with chat_server(reply) as running:
        yield running


def test_a_served_model_reasons_and_its_thoughts_repeat(server: ChatServer):
    def played() -> list[str]:
        env = ThoughtGraph(NumberLine(size=9), f"chat:m@{server.url}")
        env.reset(seed=3)
        return [env.step(action)[0] for action in ("reason 0", "reason 0", "answer 1", "play 3")]

    found = played()
    assert thoughts(found[2]) == [
        "1 (after 0): Look at the numbers.",
        "2 (after 0): Look again.",
        "3 (after 1): +",
    ]
    assert len(server.requests) == 3 and played() == found and len(server.requests) == 3


def test_a_policy_that_reasons_first_solves_what_one_that_answers_does_not():
    def solved(plan: tuple[str, ...]) -> bool:
        env = ThoughtGraph(NumberLine(size=5), f"{__name__}:think")
        view = View.start(env, "train/0", 0)
        info: dict[str, Any] = view.info
        ended = False
        while not ended:
            for action in plan:
                *_, terminated, truncated, info = env.step(action)
                if ended := terminated or truncated:
                    break
        return bool(info["success"])

    assert solved(("reason 0", "reason 1", "answer 2", "play 3"))
    assert not solved(("answer 0", "play 1"))


def think_once(rules: str, seen: str, way: list[str], block: str, others: list[str]) -> str:
    """Answers with the way to the target after one step of reasoning, else wrongly."""
    position, target = map(int, re.findall(r"at (\d+)\. Go to (\d+)", seen)[-1])
    if block == "answer":
        return "+" if (target > position) == bool(way) else "-"
    return block


@pytest.mark.slow
def test_a_policy_learns_to_let_the_model_reason(tmp_path: Path):
    pytest.importorskip("torch")
    from agentgym.trainers import train

    from ..helpers.until_solved import UntilSolved

    before, after = train(
        "poad", env_id="NumberLine-v0", env_kwargs={"size": 3, "max_turns": 4},
        wrap=(f"ThoughtGraph:model={__name__}:think_once,size=2,budget=12,cost=0.0",),
        model="nano", context="current", instructions=False, constrain=True, iterations=15,
        episodes_per_iteration=96, num_envs=96, entropy_coef=0.02, lr=2e-3, eval_every=0,
        eval_episodes=60, seed=1, threads=1, device="cpu", quiet=True, log_with=(),
        callbacks=[UntilSolved(bar=0.95)], run_dir=str(tmp_path / "run"),
    )  # fmt: skip
    successes = [each.aggregate()["success"].mean for each in (before, after)]
    assert successes[0] < 0.5 and successes[1] > 0.9
