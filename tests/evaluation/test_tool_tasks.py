"""Tasks of tools that a model writes: what counts, and how they are played."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentgym import FunctionToolEnv, ToolError, tool
from agentgym.envs.numbers.number_line import NumberLine
from agentgym.errors import ConfigError, DataError
from agentgym.evaluation import tool_tasks
from agentgym.evaluation.tool_tasks import PROMPT, problems, write_tool_tasks
from agentgym.tools import Call, write_call
from agentgym.wrappers import ToolTasks
from agentgym.wrappers.tool_tasks import ToolTask

from ..helpers.chat_server import ChatServer, Messages, chat_server


@tool(cost=0.125)
def move(state: dict[str, Any], item: str, count: int) -> str:
    """Moves items from the store to the shop."""
    if not 0 < count <= state["store"].get(item, 0):
        raise ToolError(f"There are not {count} {item}.")
    state["store"][item] -= count
    state["shop"][item] = state["shop"].get(item, 0) + count
    return f"Moved {count} {item}."


@tool
def close(state: dict[str, Any]) -> str:
    """Closes the shop. Not final: `submit` is added."""
    state["open"] = False
    return "Closed."


def shop() -> FunctionToolEnv:
    def start(task: str) -> tuple[str, dict[str, Any]]:
        return "Say hello.", {"store": {"pear": 4, "fig": 2}, "shop": {}, "open": True}

    return FunctionToolEnv([move, close], start=start, reward=lambda state: 1.0)


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


PEARS = [call("move", item="pear", count=2), call("close"), call("submit", answer="done")]
NONE = [call("submit", answer="done")]
TASK = ToolTask(
    "train/0", "Bring two pears to the shop and close it. Say done.", PEARS, [PEARS[1:]]
)


@pytest.mark.parametrize(
    ("calls", "wrong", "said"),
    [
        (PEARS, [PEARS[1:], [PEARS[0], *NONE]], ""),
        ([call("move", item="plum", count=2), *NONE], [NONE], "invalid.*There are not 2 plum"),
        ([call("fly"), *NONE], [NONE], "invalid.*no tool 'fly'"),
        (PEARS[:2], [NONE], "does not end with the last call"),
        ([*NONE, *PEARS], [NONE], "does not end with the last call"),
        (NONE, [PEARS], "the last call alone is a solution"),
        (PEARS, [], "there are no failure cases"),
        (PEARS, [[]], "failure case 1 does not end the episode"),
        (PEARS, [NONE, PEARS[:2]], "failure case 2 does not end the episode"),
        (PEARS, [NONE, [PEARS[1], PEARS[0], *NONE]], "failure case 2 ends in the state"),
    ],
)
def test_solutions_and_failure_cases_must_agree(calls: Any, wrong: Any, said: str):
    found = problems(shop(), ToolTask("train/0", "Do it.", calls, wrong))
    assert re.search(said, found) if said else found == ""


def test_a_reply_that_is_nested_too_deeply_is_no_task():
    task, wrong = tool_tasks._read('{"goal": ' + "[" * 100_000 + "]" * 100_000 + "}", "", [])
    assert task is None and "recursion" in wrong


def written(messages: Messages) -> str:
    """Makes mistakes, learns from what the calls answer, and ends with the goals that are taken."""
    text = messages[-1]["content"]
    assert messages[0]["content"] == PROMPT and "Moves items from the store" in text
    count = text.partition("Goals that are taken:")[2].partition("An earlier")[0].count("\n- ") + 1
    if count > 4:
        return "No more."
    good = {
        "goal": f"Bring {count} pears and say done.",
        "calls": [call("move", item="pear", count=count), *NONE],
        "wrong": [[call("move", item="fig", count=1), *NONE]],
    }
    if count == 1 and "What is wrong" not in text:
        return "I think of something."
    if count == 1 and text.count("What is wrong") == 1:
        return json.dumps(good | {"calls": [call("move", item="pear", count=9), *NONE]})
    if count == 1:
        assert "There are not 9 pear" in text
    start = json.dumps({"pear": 4})
    return (
        f"<think>{{}}</think>The store has\n```json\n{start}\n```\nThe task:\n"
        f"```json\n{json.dumps(good)}\n```"
    )


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ChatServer]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))
    with chat_server(written) as running:
        yield running


def test_a_model_writes_tasks_that_the_expert_solves(server: ChatServer, tmp_path: Path):
    source, out = f"chat:m@{server.url}", tmp_path / "tasks.json"
    found = write_tool_tasks(source, shop(), out, count=6, attempts=3)
    assert [task.goal[:8] for task in found] == [f"Bring {i} " for i in (1, 2, 3, 4)]
    asked = len(server.requests)
    assert write_tool_tasks(source, shop(), out, count=6, attempts=3) == found
    assert len(server.requests) == asked
    env = ToolTasks(shop(), str(out))
    assert list(env.tasks.train) == ["written/0", "written/1", "written/2"]
    assert list(env.tasks.test) == ["written/3"]
    for name in (*env.tasks.train, *env.tasks.test):
        observation, info = env.reset(seed=0, options={"task": name})
        assert observation == found[int(name[-1])].goal and info["task"] == name
        total, ended = 0.0, False
        while not ended:
            _, reward, ended, _, info = env.step(str(env.expert()))
            total += reward
        assert info["success"] and total == 1 - 0.125 and info["reward_terms"]["task"] == 0
    with pytest.raises(DataError, match="wrote no task that passes: it holds no JSON object"):
        write_tool_tasks(source, shop(), out, count=1, attempts=1)
    with pytest.raises(ConfigError, match="ToolEnv"):
        write_tool_tasks(source, NumberLine(), out)


@pytest.fixture
def env(tmp_path: Path) -> ToolTasks:
    file = tmp_path / "tasks.json"
    file.write_text(json.dumps([vars(TASK), vars(TASK)]))
    return ToolTasks(shop(), str(file))


def send(env: ToolTasks, name: str, **arguments: Any) -> Any:
    return env.step(write_call(Call(name, arguments), "json"))


def test_another_way_to_the_same_state_is_a_solution_and_another_state_is_none(env: ToolTasks):
    env.reset(seed=0)
    send(env, "close")
    assert env.expert() is None
    for _ in range(2):
        send(env, "move", item="pear", count=1)
    _, reward, terminated, _, info = send(env, "submit", answer="done")
    assert terminated and info["success"] and reward == 1
    env.reset(seed=0)
    send(env, "move", item="pear", count=2)
    _, reward, terminated, _, info = send(env, "submit", answer="done")
    assert terminated and not info["success"] and reward == info["progress"] == 0


def test_snapshots_go_on(env: ToolTasks):
    env.reset(seed=0, options={"task": "written/1"})
    send(env, "move", item="pear", count=2)
    twin = ToolTasks(shop(), env.file)
    twin.restore(env.snapshot())
    for each in (env, twin):
        assert each.expert() == write_call(Call("close", {}), "json")
        send(each, "close")
        assert send(each, "submit", answer="done")[4]["success"]


def test_files_are_checked(tmp_path: Path):
    for text in (
        "{",
        "[]",
        '[{"goal": "a"}]',
        json.dumps([vars(TASK) | {"calls": [{"name": "x"}]}]),
        json.dumps([vars(TASK) | {"calls": [{"name": "x", "arguments": 3}]}]),
        json.dumps([vars(TASK) | {"wrong": [[{"name": 7, "arguments": {}}]]}]),
    ):
        file = tmp_path / f"{len(text)}.json"
        file.write_text(text)
        with pytest.raises(DataError):
            ToolTasks(shop(), str(file))
    with pytest.raises(ConfigError, match="ToolEnv"):
        ToolTasks(NumberLine(), str(file))
    file = tmp_path / "one.json"
    file.write_text(json.dumps([vars(TASK)]))
    with pytest.raises(DataError, match=r"expected at least 2 tasks.* got 1\. Add a task"):
        ToolTasks(shop(), str(file))
    file = tmp_path / "endless.json"
    file.write_text(json.dumps([vars(TASK) | {"calls": PEARS[:2]}] * 2))
    with pytest.raises(DataError, match="do not end the episode"):
        ToolTasks(shop(), str(file)).reset(seed=0)
