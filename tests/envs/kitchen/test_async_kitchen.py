"""AsyncKitchen: processes by hand, dishes, the time limit, the planner in any state."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.envs.kitchen.async_kitchen import AsyncKitchen, level
from agentgym.envs.kitchen.planner import Planner, plan, steps
from agentgym.envs.kitchen.rules import DISHES, Kitchen, raw
from agentgym.errors import ConfigError


def kitchen(**things: str) -> Kitchen:
    names = ["counter 1", "counter 2", "board", "fryer", "sink", "stove 1", "stove 2", "table 1"]
    stacks = {name: [] for name in names}
    for name, thing in things.items():
        stacks[name.replace("_", " ")].append(thing)
    return Kitchen("counter 1", "", stacks)


def act(made: Kitchen, *actions: str) -> int:
    return sum(made.act(action, made.actions()[action]) for action in actions)


def test_a_vegetable_is_cut_by_three_actions():
    made = kitchen(board="lettuce")
    act(made, "move to board", "cut lettuce", "cut lettuce", "wait")
    assert made.top("board") == "lettuce" and made.left == {"board": 1}
    act(made, "cut lettuce")
    assert made.top("board") == "cut lettuce" and not made.left


def test_meat_cooks_by_itself_and_cannot_be_taken():
    made = kitchen(stove_1="patty")
    act(made, "move to stove 1", "cook patty")
    assert made.left == {"stove 1": 6} and "pick up patty" not in made.actions()
    act(made, "move to table 1", *["wait"] * 4)
    assert made.top("stove 1") == "patty"
    act(made, "wait")
    assert made.top("stove 1") == "cooked patty"


def test_soup_by_hand():
    made = kitchen(sink="pot", counter_1="cut tomato", counter_2="bowl")
    made.orders = ["tomato soup"]
    act(made, "move to sink", "fill pot", *["wait"] * 3, "pick up pot of water", "move to stove 2")
    act(made, "place pot of water", "boil pot of water", "move to counter 1", "pick up cut tomato")
    act(made, "move to stove 2")
    assert "add cut tomato" not in made.actions(), "the water does not boil yet"
    act(made, "wait", "wait", "add cut tomato", *["wait"] * 4)
    assert made.top("stove 2") == "pot of tomato soup"
    act(
        made, "move to counter 2", "pick up bowl", "move to stove 2", "fill bowl", "move to table 1"
    )
    assert act(made, "place bowl of tomato soup") == 1
    assert made.top("stove 2") == "pot" and not made.orders


def test_soup_is_made_on_a_stove_only():
    made = kitchen(counter_1="pot of boiling water", counter_2="bowl")
    made.orders, made.hand = ["tomato soup"], "cut tomato"
    assert "add cut tomato" not in made.actions()
    assert plan(made) is not None, "the expert brings the pot back to a stove"


def test_a_pot_of_soup_on_a_counter_fills_a_bowl():
    made = kitchen(counter_1="pot of tomato soup", counter_2="bowl")
    made.orders = ["tomato soup"]
    assert plan(made) is not None


def test_a_dish_that_is_made_before_its_order_is_served_when_the_order_comes():
    made = kitchen(table_1="fries")
    made.later = {"fries": 2}
    assert act(made, "wait") == 0
    assert act(made, "move to counter 2") == 1 and not made.things["table 1"] and not made.orders


def test_only_the_exact_stack_is_served():
    made = kitchen(counter_1="bread", table_1="bread")
    made.orders, made.things["table 1"] = ["egg sandwich"], ["bread", "cut lettuce"]
    assert act(made, "pick up bread", "move to table 1", "place bread") == 0
    made.things["table 1"], made.hand = ["bread", "fried egg"], "bread"
    assert act(made, "place bread") == 1 and made.things["table 1"] == []


def test_every_dish_can_be_made_of_raw_things():
    for dish in DISHES.values():
        for thing in dish:
            assert thing.startswith("bowl of") or steps(raw(thing)[0], thing) is not None


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.integers(1, 4), st.booleans(), st.integers(0, 30))
def test_the_planner_finishes_from_every_state(number: int, orders: int, late: bool, turns: int):
    made, needed = level(f"train/{number}", orders, late)
    assert needed == len(plan(made) or ())
    made, rng = made.copy(), np.random.default_rng(number)
    for _ in range(turns):
        options = [*made.actions()]
        act(made, options[int(rng.integers(len(options)))])
    assert plan(made) is not None


def test_who_waits_while_anything_cooks_is_late():
    finished = []
    for number in range(40):
        env = AsyncKitchen()
        env.reset(seed=0, options={"task": f"test/{number}"})
        over, info = False, {}
        while not over:
            waits = any(env.state.running(station) for station in env.state.left)
            _, _, over, _, info = env.step("wait" if waits else Planner(env.state).action())
        finished.append(info["success"])
    assert 0.2 < np.mean(finished) < 0.8


def test_orders_come_while_the_agent_works():
    env = AsyncKitchen(orders=3, late=True)
    observation, _ = env.reset(seed=0, options={"task": "test/0"})
    assert observation.count("Order:") == 1
    for _ in range(13):
        observation, *_ = env.step("wait")
    assert observation.count("Order:") == 3


def test_bad_input_is_answered():
    env = AsyncKitchen()
    env.reset(seed=0)
    observation, _, _, _, info = env.step("cook everything")
    assert not info["valid"] and "Possible: " in observation and env.state.turn == 0
    cases: list[dict[str, Any]] = [{"orders": 0}, {"orders": 5}, {"slack": 0.5}]
    for wrong in cases:
        with pytest.raises(ConfigError):
            AsyncKitchen(**wrong)
