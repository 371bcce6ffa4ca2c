"""`Compose`: several tasks behind one goal text."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from agentgym.envs.numbers.number_line import NumberLine
from agentgym.errors import ConfigError
from agentgym.wrappers import Compose, PrivilegedText
from agentgym.wrappers.compose import PROMPT

from ..helpers.chat_server import Messages, chat_server
from ..helpers.echo import DictEcho

IDS = ["Wordle-v0", "Countdown-v0"]


def solve(env: Any) -> tuple[float, dict[str, Any], list[str]]:
    """Plays the expert. Returns the return, the last info and the observations."""
    total, seen, info, ended = 0.0, [], {}, False
    while not ended:
        observation, reward, terminated, truncated, info = env.step(env.expert())
        total, ended = total + reward, terminated or truncated
        seen.append(observation)
    return total, info, seen


def test_all_goals_are_shown_from_the_start_and_outcomes_as_they_come():
    env = Compose(NumberLine(size=30), 3)
    observation, info = env.reset(seed=0)
    goals = observation.partition("\n\n")[0].split("\n")
    assert goals[0] == "Solve all tasks, in this order:" and goals[1].endswith("(now)")
    total, info, seen = solve(env)
    assert total == pytest.approx(1) and info["success"] and info["progress"] == 1
    assert seen[-1].count("(solved)") == 3
    parts = [text.count("(solved)") for text in seen]
    assert parts == sorted(parts) and set(parts) >= {0, 1, 2}


def test_rewards_are_terms_of_the_tasks_and_half_of_them_is_half_the_return():
    env = Compose(NumberLine(size=6, max_turns=4), 2)
    env.reset(seed=1)
    while env.step("nonsense")[4]["part"] == 0:
        pass
    total, info, seen = solve(env)
    assert total == info["progress"] == 0.5 or total == 0.5
    assert not info["success"] and "(failed)" in seen[-1] and "(solved)" in seen[-1]
    assert info["reward_terms"] == {"task 1": 0.0, "task 2": 0.5}


def test_tasks_in_any_order_are_addressed_by_their_number():
    env = Compose(NumberLine(size=30), 2, ordered=False)
    _, info = env.reset(seed=2)
    assert {action[:3] for action in info["admissible"]} == {"1: ", "2: "}
    first = env.step("2: +")
    assert first[4]["part"] == 1 and first[4]["valid"]
    assert env.step("+")[4]["part"] == 1  # the task before
    assert env.step("Action: 1: -")[4]["part"] == 0
    before = env.step("9: +")
    assert not before[4]["valid"] and "There is no task 9" in before[0]
    assert solve(env)[1]["success"]


def test_a_task_that_has_ended_takes_no_action():
    env = Compose(NumberLine(size=4, max_turns=9), 2, ordered=False)
    env.reset(seed=0)
    ended = False
    while not ended:
        ended = "(solved)" in env.step(f"1: {env._parts[0].env.expert()}")[0]  # type: ignore[attr-defined]
    observation, reward, _, _, info = env.step("1: +")
    assert "There is no task 1 to solve. Left: [2]" in observation
    assert not info["valid"] and reward <= 0


def test_combinations_of_the_test_split_are_held_out():
    env = Compose(NumberLine(), 2, ids=IDS)
    train, test = (set(env.combinations[split]) for split in ("train", "test"))
    assert len(train) == 7 and len(test) == 2 and not train & test
    assert "Wordle" in env.instructions or "letters" in env.instructions
    seen = {"train": set(), "test": set()}
    for split, found in seen.items():
        for number in range(60):
            env.reset(seed=0, options={"task": f"{split}/{number}"})
            found.add(env._chosen)
    assert seen == {"train": train, "test": test}
    single = Compose(NumberLine(), 1, ids=IDS).combinations
    assert single["train"] == single["test"] == [(0,), (1,), (2,)]


def test_other_ids_are_solved_too():
    env = Compose(NumberLine(), 2, ids=IDS, held_out=0.0)
    solved = 0
    for number in range(6):
        env.reset(seed=0, options={"task": f"train/{number}"})
        solved += solve(env)[1]["success"]
    assert solved >= 5
    env.close()


def test_hidden_facts_of_all_tasks_are_numbered():
    env = PrivilegedText(Compose(NumberLine(), 2))
    _, info = env.reset(seed=0)
    assert info["privileged"].startswith("1: ") and "\n2: " in info["privileged"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n": 0}, "n must be 1 to 9"),
        ({"n": 10}, "n must be 1 to 9"),
        ({"held_out": 1.0}, "held_out"),
        ({"ids": ["Nowhere-v0"]}, "no environment 'Nowhere-v0'"),
        ({"n": 9, "ids": IDS}, "combinations"),
    ],
)
def test_arguments_out_of_range_are_named(arguments: dict[str, Any], message: str):
    with pytest.raises(ConfigError, match=message):
        Compose(NumberLine(), **arguments)
    with pytest.raises(ConfigError, match="text"):
        Compose(DictEcho())


def summed(messages: Messages) -> str:
    """Writes the targets of all tasks in one sentence, and nothing for those that hold a 1."""
    text = messages[-1]["content"]
    assert messages[0]["content"] == PROMPT and text.startswith("Tasks, in this order:\n1. ")
    targets = re.findall(r"Go to (\d+)", text)
    return "" if "1" in targets else f"Visit {' and then '.join(targets)}.\nDone."


def test_a_model_writes_one_goal_of_all_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))
    with chat_server(summed) as server:
        source = f"chat:m@{server.url}"
        env = Compose(NumberLine(size=9), 2, goal=source)
        kinds = set()
        for number in range(6):
            start, _ = env.reset(seed=0, options={"task": f"train/{number}"})
            targets = [re.findall(r"Go to (\d+)", part.goal)[0] for part in env._parts]
            kinds.add("1" in targets)
            if "1" in targets:
                assert start.startswith("Solve all tasks")
                continue
            goal = f"Goal: Visit {' and then '.join(targets)}.\nTasks that are over: "
            assert start.startswith(f"{goal}0 of 2.")
            last = start
            while not env._parts[0].over:
                last, *_ = env.step(str(env.expert()))
            assert last.startswith(f"{goal}1 of 2.")
            twin = Compose(NumberLine(size=9), 2, goal=source)
            assert twin.restore(env.snapshot())[0] == last
        assert kinds == {False, True} and len(server.requests) == 6
    with pytest.raises(ConfigError, match="goal must be 'listed'"):
        Compose(NumberLine(), 2, goal="short")
