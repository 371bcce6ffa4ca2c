"""`Subgoals`: texts in observations, rewards once per subgoal, and snapshots."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from agentgym import make_env
from agentgym.agents.text_model import text_model
from agentgym.errors import ConfigError
from agentgym.wrappers import Subgoals

from ..helpers.chat_server import Messages, chat_server

KWARGS: dict[str, Any] = {"size": 60, "max_turns": 20}


class Plan:
    """Proposes subgoals from a list, the next one after every turn."""

    def __init__(self, *subgoals: str):
        self.left = list(subgoals)

    def __call__(self, env: Any) -> str:
        return self.left.pop(0)


def test_golden_rewards():
    plan = Plan("a", "a", "b", "a", "b", "", "a")
    env = Subgoals(make_env("NumberLine-v0", **KWARGS), plan, bonus=0.5)
    observation, info = env.reset(seed=0)
    assert observation.endswith("\nSubgoal: a") and info["reward_terms"]["subgoal"] == 0
    gained = []
    for _ in range(6):
        observation, reward, *_, info = env.step("-")
        gained.append(info["reward_terms"]["subgoal"])
        assert reward == pytest.approx(sum(info["reward_terms"].values()))
    # a is reached once, although it is proposed again. So is b.
    assert gained == [0, 0.5, 0.5, 0, 0, 0]


def test_an_observation_without_a_subgoal_is_unchanged_and_episodes_start_anew():
    plain = make_env("NumberLine-v0", **KWARGS)
    env = Subgoals(make_env("NumberLine-v0", **KWARGS), Plan("a", "", "a", ""))
    for _ in range(2):
        env.reset(seed=1)
        plain.reset(seed=1)
        observation, _, _, _, info = env.step("+")
        assert observation == plain.step("+")[0]
        assert info["reward_terms"]["subgoal"] == 1  # a, in every episode


def test_a_served_model_proposes_subgoals_and_answers_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def reply(messages: Messages) -> str:
        position = int(re.findall(r"You are at (\d+)", messages[-1]["content"])[0])
        current = messages[-1]["content"].rpartition("Subgoal: ")[2]
        goal = 10 * (position // 10)
        if current == "none":
            return f"<think>Nothing yet.</think>\nSubgoal: go below {goal}\nIt is near."
        return "none" if position < int(current.rpartition(" ")[2]) else current

    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))

    def play(env: Any) -> list[Any]:
        found = [env.reset(seed=0)]
        return [*found, *(env.step("-") for _ in range(12))]

    with chat_server(reply) as server:
        source = f"chat:guide@{server.url}"
        played = play(Subgoals(make_env("NumberLine-v0", **KWARGS), source, bonus=0.5))
        asked = len(server.requests)
        text_model.cache_clear()  # as in another process
        assert play(Subgoals(make_env("NumberLine-v0", **KWARGS), source, bonus=0.5)) == played
        assert len(server.requests) == asked
    shown = [step[-1]["subgoal"] for step in played]
    assert shown[0].startswith("go below ") and "near" not in shown[0]
    gained = [step[-1]["reward_terms"]["subgoal"] for step in played]
    reached = shown.index("")
    assert gained[reached] == 0.5 and sum(gained[: reached + 1]) == 0.5


def test_a_subgoal_stays_after_an_empty_reply(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))
    replies = ["go left", "<think>?", "None."]
    with chat_server(lambda messages: replies.pop(0)) as server:
        env = Subgoals(make_env("NumberLine-v0", **KWARGS), f"chat:m@{server.url}")
        shown = [env.reset(seed=0)[1], env.step("+")[4], env.step("+")[4]]
    assert [info["subgoal"] for info in shown] == ["go left", "go left", ""]


def distance(env: Any) -> str:
    return f"go on from {env.unwrapped.state.position // 2}"


def test_snapshots_hold_the_reached_subgoals():
    env = Subgoals(make_env("NumberLine-v0", **KWARGS), f"{__name__}:distance")
    env.reset(seed=3)
    env.step("+")
    snapshot = json.loads(json.dumps(env.get_wrapper_attr("snapshot")()))
    first = [env.step(action) for action in "-+-"]
    env.get_wrapper_attr("restore")(snapshot)
    assert [env.step(action) for action in "-+-"] == first


@pytest.mark.parametrize("propose", ["nowhere:here", "os", "os.path:nothing"])
def test_a_missing_function_is_named(propose: str):
    with pytest.raises(ConfigError, match="module:function"):
        Subgoals(make_env("NumberLine-v0"), propose)


def test_a_subgoal_is_a_text():
    env = Subgoals(make_env("NumberLine-v0"), lambda env: None)  # type: ignore[return-value]
    with pytest.raises(ConfigError, match="must be a text"):
        env.reset(seed=0)
