"""Environments made of tools."""

from __future__ import annotations

import json
import pickle
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import agentgym
from agentgym import Call, FunctionToolEnv, Tasks, tool
from agentgym.errors import ConfigError
from agentgym.tools.calls import CallFormat
from agentgym.wrappers import ToolRules


@tool(cost=0.25)
def add(state: dict[str, Any], number: int) -> int:
    """Adds a number to the total."""
    if number < 0:
        raise agentgym.ToolError("Only positive numbers can be added.")
    state["total"] += number
    return state["total"]


@tool
def fail(count: int) -> float:
    """Divides by a number."""
    return 1 / count


@tool
def note(state: dict[str, Any], text: str) -> None:
    """Takes a note."""
    state["notes"].append(text)


def start(task: str) -> tuple[str, dict[str, Any]]:
    return f"Make {task}.", {"total": 0, "goal": int(task)}


def reward(state: dict[str, Any]) -> float:
    return float(state["total"] == state["goal"])


def make(**kwargs: Any) -> FunctionToolEnv:
    return FunctionToolEnv(
        [add, fail], start=start, reward=reward, tasks=Tasks(["3"], ["5"]), **kwargs
    )


def call(name: str, **arguments: Any) -> str:
    return json.dumps({"name": name, "arguments": arguments})


def test_functions_and_a_reward_make_an_environment():
    env = make()
    assert "add(number: integer): Adds a number" in env.instructions
    assert [schema["function"]["name"] for schema in env.tool_schemas()] == [
        "add",
        "fail",
        "submit",
    ]
    assert env.reset(seed=0)[0] == "Make 3."
    observation, total, _, _, info = env.step(call("add", number=3))
    assert (observation, total, info["reward_terms"]["cost"]) == ("3", -0.25, -0.25)
    saved = env.snapshot()
    _, _, terminated, _, info = env.step(call("submit", answer=""))
    assert terminated and info["success"] and info["reward_terms"]["task"] == 1
    env.restore(saved)
    env.step(call("add", number=1))
    assert not env.step(call("submit", answer=""))[-1]["success"]


@pytest.mark.parametrize(
    ("action", "message"),
    [
        ("hello", "Expected a tool call"),
        (call("subtract", number=1), "There is no tool 'subtract'"),
        (call("add", number="1"), "'number' must be integer, got '1'"),
        (call("add", number=-1), "Error: Only positive numbers can be added."),
        (call("fail", count=0), "Error: ZeroDivisionError: division by zero"),
    ],
)
def test_errors_are_observations(action: str, message: str):
    env = make(invalid_penalty=0.5)
    env.reset(seed=0)
    observation, total, _, _, info = env.step(action)
    assert message in observation
    assert (total, info["valid"], env.state.calls) == (-0.5, False, 0)


def test_a_snapshot_can_be_restored_several_times():
    env = FunctionToolEnv(
        [note], start=lambda task: ("Go.", {"notes": []}), reward=lambda state: 0.0
    )
    env.reset(seed=0)
    saved = env.snapshot()
    for text in ("a", "b"):
        env.restore(saved)
        env.step(call("note", text=text))
        assert env.state.values["notes"] == [text]


def test_episodes_do_not_share_what_start_returns():
    notes: list[str] = []
    env = FunctionToolEnv(
        [note], start=lambda task: ("Go.", {"notes": notes}), reward=lambda state: 0.0
    )
    for _ in range(2):
        env.reset(seed=0)
        env.step(call("note", text="a"))
        assert env.state.values["notes"] == ["a"]
    assert not notes


def test_the_state_key_does_not_depend_on_the_order_of_calls():
    @tool
    def look(place: str) -> str:
        """Looks at a place."""
        return f"nothing in {place}"

    keys = []
    for places in (("box", "bag"), ("bag", "box"), ("bag", "bag")):
        env = FunctionToolEnv([look], start=lambda task: ("", {}), reward=lambda state: 0.0)
        env.reset(seed=0)
        keys.append([env.step(call("look", place=p))[-1]["state_key"] for p in places][-1])
    assert keys[0] == keys[1] != keys[2]


def test_the_state_key_depends_on_the_order_of_changes():
    @tool
    def put(state: dict, value: int) -> None:
        """Stores a value."""
        state["value"] = value

    keys = []
    for values in ((1, 2), (2, 1)):
        env = FunctionToolEnv([put], start=lambda task: ("", {}), reward=lambda state: 0.0)
        env.reset(seed=0)
        keys.append([env.step(call("put", value=v))[-1]["state_key"] for v in values][-1])
    assert keys[0] != keys[1]


def test_errors_of_the_reward_function_are_raised():
    env = FunctionToolEnv([fail], start=lambda task: ("", {}), reward=lambda state: float("x"))
    env.reset(seed=0)
    with pytest.raises(ValueError, match="could not convert"):
        env.step(call("submit", answer=""))


def test_tools_are_pickled_by_reference():
    env = make()
    assert pickle.loads(pickle.dumps(env.tools)) == env.tools


def test_long_results_are_cut():
    @tool
    def flood() -> str:
        """Returns a million characters."""
        return "x" * 10**6

    env = FunctionToolEnv([flood], start=lambda task: ("", {}), reward=lambda state: 0.0)
    env.reset(seed=0)
    observation = env.step(call("flood"))[0]
    assert len(observation) < 21_000 and observation.endswith("(980,000 more characters)")


def test_wrong_tools_are_refused():
    with pytest.raises(ConfigError, match="Decorate"):
        FunctionToolEnv([len], start=start, reward=reward)  # type: ignore[list-item]
    with pytest.raises(ConfigError, match="Two tools are named 'add'"):
        FunctionToolEnv([add, add], start=start, reward=reward)


@pytest.mark.parametrize(
    ("rules", "actions", "denied"),
    [
        ({"allow": ["add", "sub*"]}, [call("add", number=1), call("fail", count=1)], [0, 1]),
        ({"deny": {"add": {}}}, [call("add", number=1), "hello"], [1, 1]),
        ({"deny": {"add": {"number": "[5-9]"}}}, [call("add", number=n) for n in (1, 5)], [0, 1]),
        ({"after": {"sub*": ["add"]}}, [call("submit", answer=""), call("add", number=1)], [1, 1]),
        ({"after": {"sub*": ["add"]}}, [call("add", number=-1), call("submit", answer="")], [0, 1]),
        ({"limit": {"add": 1}}, [call("add", number=1)] * 2, [0, 1]),
    ],
)
def test_rules_deny_calls(rules: dict[str, Any], actions: list[str], denied: list[int]):
    env = ToolRules(make(), **rules)
    env.reset(seed=0)
    infos = [env.step(action)[-1] for action in actions]
    assert [info["denied"] for info in infos] == denied
    assert not infos[-1]["valid"] or infos[-1]["denied"] == infos[0]["denied"]
    fresh = ToolRules(make(), **rules)
    fresh.restore(env.snapshot())
    assert fresh.step(actions[-1]) == env.step(actions[-1])
    assert env.reset()[1]["denied"] == 0


@pytest.mark.parametrize(
    "action",
    ["add(5)", "{'name': 'add', 'args': {'number': 5.0}}", '{"add": {"number": 5}}',
     "Action: add\nAction Input: 5", "[TOOL_CALLS]add[ARGS]{\"number\": 5}"],
)  # fmt: skip
def test_rules_read_a_call_as_the_environment_does(action: str):
    env = ToolRules(make(), deny={"add": {"number": "5"}})
    env.reset(seed=0)
    *_, info = env.step(action)
    assert info["denied"] == 1 and not info["valid"]


def test_an_invalid_pattern_is_named():
    with pytest.raises(ConfigError, match=r"invalid pattern, '\('"):
        ToolRules(make(), deny={"add": {"number": "("}})


@agentgym.reward
def reached(state: dict[str, Any]) -> float:
    """Whether the total is the goal."""
    return float(state["total"] == state["goal"])


@agentgym.reward(name="excess", weight=-0.5)
def too_much(state: dict[str, Any]) -> float:
    """The amount above the goal."""
    return max(0, state["total"] - state["goal"])


def test_named_rewards_are_the_weighted_terms_of_the_end():
    env = FunctionToolEnv(
        [add], start=start, reward=[reached, too_much], tasks=Tasks(("3",), ("4",))
    )
    for number, terms in (
        (3, {"reached": 1.0, "excess": 0.0}),
        (5, {"reached": 0.0, "excess": -1.0}),
    ):
        env.reset(options={"task": "3"})
        info = env.step(f"add(number={number})")[-1]
        assert info["reward_terms"] == {"reached": 0, "excess": 0, "cost": -0.25, "invalid": 0}
        _, total, terminated, _, info = env.step("submit(answer='')")
        assert terminated and info["success"] == (number == 3)
        assert info["reward_terms"] == {**terms, "cost": 0.0, "invalid": 0.0}
        assert total == sum(terms.values())
    assert pickle.loads(pickle.dumps(reached)) is reached


@pytest.mark.parametrize(
    "rewards", [[], 1.0, None, [reached, reached], [len], [agentgym.reward(name="cost")(len)]]
)
def test_invalid_lists_of_rewards_are_refused(rewards: Any):
    with pytest.raises(ConfigError, match=r"reward|Rewards"):
        FunctionToolEnv([add], start=start, reward=rewards)


def test_weights_that_sum_to_1_make_a_success():
    weights = (0.7, 0.2, 0.1)  # 0.9999999999999999 if they are added one after another
    rewards = [agentgym.reward(name=f"w{w}", weight=w)(lambda state: 1.0) for w in weights]
    env = FunctionToolEnv([add], start=start, reward=rewards, tasks=Tasks(("3",), ("4",)))
    env.reset(seed=0)
    info = env.step("submit(answer='')")[-1]
    assert info["success"] and info["progress"] == 1


def test_an_expert_is_a_function_of_a_copy_of_the_state():
    seen = []

    def expert(state: dict[str, Any]) -> Call:
        seen.append(state["total"])
        missing, state["total"] = state["goal"] - state["total"], 99
        return Call("add", {"number": missing}) if missing else Call("submit", {"answer": ""})

    for form in get_args(CallFormat):
        env = make(expert=expert, call_format=form)
        env.reset(seed=0)
        while not env.step(env.expert() or "")[2]:
            pass
        assert env.state.values["total"] == 3
    assert seen == [0, 3] * len(get_args(CallFormat))


def test_an_expert_that_returns_no_call_is_named():
    env = make(expert=lambda state: "add(number=3)")  # type: ignore[arg-type, return-value]
    env.reset(seed=0)
    with pytest.raises(TypeError, match="expert must return a Call or None, got 'add"):
        env.expert()
    for kwargs in ({}, {"expert": lambda state: None}):
        env = make(**kwargs)
        env.reset(seed=0)
        assert env.expert() is None


@pytest.mark.parametrize(
    ("state", "place"),
    [
        ({"total": np.int64(3)}, r"state\['total'\] is a int64"),
        ({"items": [{"size": (1, 2)}]}, r"state\['items'\]\[0\]\['size'\] is a tuple"),
        ({"items": {1: "a"}}, r"state\['items'\] has the key 1"),
        ({"seen": set()}, r"list\(x\) for a tuple or a set"),
        ({"client": object()}, r"vars\(x\) for an object"),
    ],
)
def test_a_state_that_json_cannot_hold_is_refused_at_reset(state: dict[str, Any], place: str):
    env = FunctionToolEnv([add], start=lambda task: ("Go.", state), reward=lambda state: 0.0)
    with pytest.raises(TypeError, match=place):
        env.reset(seed=0)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@settings(deadline=None)
@given(st.dictionaries(st.text(), JSON, max_size=4))
def test_a_state_that_json_holds_is_kept_in_snapshots(state: dict[str, Any]):
    env = FunctionToolEnv([add], start=lambda task: ("Go.", state), reward=lambda state: 0.0)
    env.reset(seed=0)
    saved = json.loads(json.dumps(env.snapshot()))
    other = FunctionToolEnv([add], start=lambda task: ("Go.", {}), reward=lambda state: 0.0)
    other.restore(saved)
    assert other.state.values == state
