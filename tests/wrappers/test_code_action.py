"""CodeAction: programs call tools, and each call is a turn of the environment."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentgym import FunctionToolEnv, ToolError, tool
from agentgym.envs.numbers.number_line import NumberLine
from agentgym.envs.office.todo import Todo
from agentgym.errors import ConfigError
from agentgym.sandbox import programs
from agentgym.utils.recent import Recent
from agentgym.wrappers import CodeAction

pytest.importorskip("pydantic_monty", reason="needs the extra code")


@tool
def amounts(state: dict[str, Any]) -> dict[str, int]:
    """Lists the amounts."""
    return state["amounts"]


@tool(cost=0.125)
def add(state: dict[str, Any], item: str, count: int = 1) -> str:
    """Adds to an amount."""
    if item not in state["amounts"]:
        raise ToolError(f"There is no {item}.")
    state["amounts"][item] += count
    return "12"


@tool(final=True)
def done(state: dict[str, Any]) -> str:
    """Ends."""
    return "Bye."


def env(**kwargs: Any) -> CodeAction:
    made = CodeAction(
        FunctionToolEnv(
            [amounts, add, done],
            start=lambda task: ("Make all amounts 3.", {"amounts": {"a": 1, "b": 2}}),
            reward=lambda state: float(set(state["amounts"].values()) == {3}),
            max_turns=12,
        ),
        **kwargs,
    )
    made.reset(seed=0)
    return made


def code(text: str) -> str:
    return f"I run this:\n```python\n{text}\n```"


LOOP = "for item, count in amounts().items():\n    add(item, count=3 - count)"


def test_a_program_calls_tools_in_a_loop():
    wrapped = env()
    observation, reward, terminated, _, info = wrapped.step(code(f"{LOOP}\nprint(amounts())"))
    assert observation == "{'a': 3, 'b': 3}"
    assert (reward, terminated, info["calls"], info["turn"]) == (-0.25, False, 4, 4)
    assert info["reward_terms"]["cost"] == -0.25
    observation, reward, terminated, _, info = wrapped.step(code("done()"))
    assert (observation, reward, terminated, info["success"]) == ("'Bye.'", 1, True, True)


def test_the_type_of_a_result_is_that_of_the_tool():
    assert env().step(code("print(type(add('a')), type(amounts()))"))[0].count("str") == 1


def test_an_invalid_call_is_an_error_of_the_program():
    wrapped = env()
    observation, reward, _, _, info = wrapped.step(code("add(item='c')"))
    assert "RuntimeError: Error: There is no c." in observation
    assert (info["valid"], info["calls"], reward) == (False, 1, 0)
    caught = "try:\n    add('c')\nexcept RuntimeError as error:\n    print('caught', error)"
    assert wrapped.step(code(caught))[0] == "caught Error: There is no c."
    assert "has 2 arguments, got 3" in wrapped.step(code("add('a', 1, 2)"))[0]
    assert "needs the argument 'item'" in wrapped.step(code("add()"))[0]
    assert "TypeError" in wrapped.step(code("add(print)"))[0]
    assert "NameError" in wrapped.step(code("subtract('a')"))[0]


def test_calls_stop_at_the_end_of_the_episode_and_at_the_limit():
    ended = env().step(code("done()\ntry:\n    add('a')\nexcept RuntimeError as e:\n    print(e)"))
    assert ended[0] == "The episode is over."
    assert ended[2]
    observation, *_, info = env(max_calls=3).step(code("while True:\n    amounts()"))
    assert "at most 3 calls" in observation
    assert info["calls"] == 3
    assert env(max_calls=50).step(code("while True:\n    amounts()"))[3], "12 turns"


@pytest.mark.parametrize("persistent", [True, False])
def test_variables_are_kept_or_not(persistent: bool):
    wrapped = env(persistent=persistent)
    wrapped.step(code("found = amounts()"))
    assert ("NameError" in wrapped.step(code("print(found['a'])"))[0]) != persistent


def test_programs_without_calls_end_too():
    wrapped = env(max_turns=3)
    results = [wrapped.step(code("x = 1")) for _ in range(3)]
    assert [result[0] for result in results] == ["There is no output."] * 3
    assert [result[3] for result in results] == [False, False, True]
    assert all(result[-1]["turn"] == 0 and not result[1] for result in results)


def test_text_is_passed_on():
    wrapped = env()
    assert wrapped.step('{"name": "amounts", "arguments": {}}')[0] == '{"a": 1, "b": 2}'
    assert not wrapped.step("hello")[-1]["valid"]


def test_a_snapshot_replays_programs_without_calling_tools(monkeypatch: pytest.MonkeyPatch):
    wrapped, other = env(), env()
    wrapped.step(code(f"{LOOP}\nfound = amounts()"))
    snapshot = json.loads(json.dumps(wrapped.snapshot()))
    expected = wrapped.step(code("print(found, amounts())"))
    monkeypatch.setattr(programs, "_sessions", Recent(1 << 20))
    other.restore(snapshot)
    assert other.step(code("print(found, amounts())")) == expected


def test_any_text_environment_has_the_function_act():
    wrapped = CodeAction(NumberLine(size=6))
    wrapped.reset(seed=0)
    assert 'print(act("..."))' in wrapped.instructions
    assert solved(wrapped)
    wrapped.reset(seed=0)
    assert "act needs one argument" in wrapped.step(code("act(3)"))[0]


def solved(wrapped: CodeAction) -> bool:
    """Plays the expert's programs and returns whether they solve the task."""
    wrapped.reset(seed=0)
    while True:
        _, _, terminated, truncated, info = wrapped.step(str(wrapped.expert()))
        assert info["valid"] and not truncated
        if terminated:
            return info["success"]


def test_the_experts_calls_are_programs():
    wrapped = CodeAction(Todo())
    assert "Each tool is a function." in wrapped.instructions
    assert solved(wrapped)
    assert env().expert() is None


def test_limits_are_checked():
    with pytest.raises(ConfigError, match="max_calls must be at least 1, got 0"):
        env(max_calls=0)
