"""The planning domains: every reachable state of small instances, shortest plans."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from agentgym.envs.planning.blocksworld import Blocksworld
from agentgym.envs.planning.env import PlanningEnv
from agentgym.envs.planning.ferry import Ferry
from agentgym.envs.planning.gripper import Gripper
from agentgym.envs.planning.logistics import Logistics
from agentgym.envs.planning.strips import Domain, Facts, Schema, World, plan, search
from agentgym.envs.planning.tyreworld import Tyreworld

Kind = Callable[..., PlanningEnv]
SMALL: list[tuple[Kind, dict[str, Any]]] = [
    (Blocksworld, {"blocks": 4}),
    (Gripper, {"balls": 3, "rooms": 2}),
    (Gripper, {"balls": 2, "rooms": 4}),
    (Ferry, {"cars": 3, "ports": 3}),
    (Logistics, {"cities": 2, "places": 2, "parcels": 2}),
    (Tyreworld, {"hubs": 1}),
]
LARGE: list[tuple[Kind, dict[str, Any]]] = [
    (Blocksworld, {"blocks": 9}),
    (Gripper, {"balls": 7, "rooms": 5}),
    (Ferry, {"cars": 7, "ports": 5}),
    (Logistics, {"cities": 3, "places": 3, "parcels": 3, "planes": 2}),
    (Tyreworld, {"hubs": 4}),
]


def distances(world: World, start: Facts, goal: Facts) -> dict[Facts, int | None]:
    """Returns the distance of each reachable state to the goal, None if there is no path."""
    before: dict[Facts, list[Facts]] = {start: []}
    queue = deque([start])
    while queue:
        facts = queue.popleft()
        for action in world.possible(facts):
            after = action(facts)
            if after not in before:
                before[after] = []
                queue.append(after)
            before[after].append(facts)
    far: dict[Facts, int | None] = dict.fromkeys(before)
    queue = deque(facts for facts in before if goal <= facts)
    far.update(dict.fromkeys(queue, 0))
    while queue:
        facts = queue.popleft()
        for earlier in before[facts]:
            if far[earlier] is None:
                far[earlier] = (far[facts] or 0) + 1
                queue.append(earlier)
    return far


@pytest.mark.parametrize(("kind", "sizes"), SMALL)
def test_every_state_of_small_instances(kind: Kind, sizes: dict[str, Any]):
    env = kind(**sizes)
    rng = np.random.default_rng(0)
    for number in range(2):
        env.reset(options={"task": f"test/{number}"})
        start, goal = env.state.facts, env.state.goal
        far = distances(env.world, start, goal)
        assert None not in far.values(), "a state without a way to the goal"
        assert all(env.estimate(facts, goal) <= (left or 0) for facts, left in far.items())
        assert len({env.world.describe(facts) for facts in far}) == len(far)
        states = list(far)
        for facts in [start, *(states[i] for i in rng.integers(len(states), size=20))]:
            possible = [action.text for action in env.world.possible(facts)]
            assert len(set(possible)) == len(possible)
            way = plan(env.world, facts, goal, env.estimate)
            assert way is not None and len(way) == far[facts]


@pytest.mark.parametrize(("kind", "sizes"), LARGE)
def test_the_expert_solves_large_instances_from_anywhere(kind: Kind, sizes: dict[str, Any]):
    env = kind(**sizes, max_turns=None)
    for seed in range(3):
        _, info = env.reset(seed=seed)
        for _ in range(10):
            action = info["admissible"][int(env.np_random.integers(len(info["admissible"])))]
            info = env.step(action)[4]
        assert not info["success"]
        done, turns, reward, last = False, 0, 0.0, 0.0
        while not done:
            _, reward, done, _, info = env.step(str(env.expert()))
            assert info["valid"] and info["progress"] >= last
            turns, last = turns + 1, info["progress"]
            assert turns < 80
        assert reward == 1 and info["success"] and info["progress"] == 1
        assert not info["admissible"] and env.expert() is None


@pytest.mark.parametrize("kind", [Blocksworld, Gripper, Ferry, Logistics, Tyreworld])
def test_plans_fit_into_the_turns_there_are_and_starts_differ(kind: Kind):
    env = kind(split="test")
    starts = set()
    for number in range(30):
        text, info = env.reset(options={"task": f"test/{number}"})
        starts.add(text)
        assert not info["success"] and info["progress"] < 1
        way = plan(env.world, env.state.facts, env.state.goal, env.estimate)
        assert way is not None and env.max_turns is not None and 0 < len(way) < env.max_turns
    assert len(starts) == 30


def test_blocks_move_by_the_rules_and_progress_remembers():
    env = Blocksworld(blocks=3)
    env.reset(seed=0)
    facts = [("on", "b1", "b2"), ("table", "b2"), ("table", "b3"), ("clear", "b1"), ("clear", "b3")]
    env.state.facts = frozenset([*facts, ("empty",)])
    env.state.goal = frozenset({("on", "b1", "b3"), ("on", "b2", "b1")})
    env.state.best = 0.0
    text, _, _, _, info = env.step("unstack b2 from b1")
    assert "Required: b2 is clear and b2 is on b1." in text and not info["valid"]
    assert "Unknown action 'dance'. A valid action is: " in env.step("dance")[0]
    text, _, _, _, info = env.step("  Unstack B1  from b2. ")
    assert info["valid"] and "you hold b1" in text and "hand is empty" not in text
    assert set(info["admissible"]) == {"put down b1", "stack b1 on b2", "stack b1 on b3"}
    key = info["state_key"]
    assert env.step("stack b1 on b3")[4]["progress"] == 0.5
    info = env.step("unstack b1 from b3")[4]
    assert info["progress"] == 0.5 and info["state_key"] == key
    env.step("stack b1 on b3")
    env.step("pick up b2")
    _, reward, terminated, _, info = env.step("stack b2 on b1")
    assert (reward, terminated, info["progress"]) == (1.0, True, 1.0)


def test_the_same_words_mean_what_is_possible_here():
    env = Logistics()
    env.reset(seed=0)
    inside = frozenset({("inside", "parcel1", "plane1"), ("plane", "plane1", "arden-airport")})
    env.state.facts = inside | {("truck", "arden-truck", "arden-depot")}
    info = env.step("unload parcel1")[4]
    assert info["valid"] and ("at", "parcel1", "arden-airport") in env.state.facts
    text = env.step("load parcel1 into arden-truck")[0]
    assert "parcel1 is at" in text or "arden-truck is at" in text
    assert "Unknown action" in env.step("drive arden-truck to belmont-depot")[0]
    assert "already the case" in env.step("drive arden-truck to arden-depot")[0]
    assert "already the case" in env.step("unload parcel1")[0]


def test_a_nut_is_loosened_on_the_ground_and_undone_above_it():
    env = Tyreworld(hubs=1)
    env.reset(seed=0)
    start = [("open",), ("have", "the wrench"), ("have", "the jack"), ("down", "hub1")]
    env.state.facts = frozenset([*start, ("tight", "nut1", "hub1"), ("fitted", "flat1", "hub1")])
    assert "nut1 is loose" in env.step("undo nut1")[0]
    env.step("jack up hub1")
    assert "hub1 is on the ground" in env.step("loosen nut1")[0]
    for action in ("jack down hub1", "loosen nut1", "jack up hub1", "undo nut1", "remove flat1"):
        assert env.step(action)[4]["valid"], action
    assert {("have", "flat1"), ("have", "nut1"), ("bare", "hub1")} <= env.state.facts


def test_search_gives_up_where_there_is_no_way_or_the_limit_is_reached():
    domain = Domain(
        {"at": "at {}"}, [Schema("go {b}", "a:p b:p", "at a, road a b", "at b, not at a")]
    )
    roads = [("road", "x", "y"), ("road", "y", "z")]
    world = World(domain, {"p": ["x", "y", "z"]}, roads)
    assert [action.text for action in world.actions] == ["go y", "go z"]
    at = {place: frozenset({("at", place)}) for place in "xyz"}
    way = search(world, at["x"], at["z"], lambda facts, goal: 0)
    assert way is not None and [action.text for _, action in way] == ["go y", "go z"]
    assert plan(world, at["z"], at["x"], lambda facts, goal: 0) is None
    assert search(world, at["x"], at["z"], lambda facts, goal: 0, limit=1) is None


@pytest.mark.parametrize(
    ("kind", "kwargs"),
    [
        (Blocksworld, {"blocks": 1}),
        (Gripper, {"balls": 0}),
        (Gripper, {"rooms": 7}),
        (Ferry, {"cars": 9}),
        (Ferry, {"ports": 1}),
        (Logistics, {"cities": 0}),
        (Logistics, {"planes": 3}),
        (Tyreworld, {"hubs": 5}),
    ],
)
def test_sizes_are_checked(kind: Kind, kwargs: dict[str, int]):
    with pytest.raises(ValueError, match=f"{next(iter(kwargs))} must be in"):
        kind(**kwargs)


def blocks(*facts: tuple[str, ...], mystery: bool = False) -> Blocksworld:
    env = Blocksworld(blocks=3, mystery=mystery)
    env.reset(seed=0)
    env.state.facts, env.state.goal = frozenset(facts), frozenset({("on", "b3", "b1")})
    env._last = env._look()
    return env


TOWER = (("on", "b1", "b2"), ("table", "b2"), ("table", "b3"), ("clear", "b1"), ("clear", "b3"),
         ("empty",))  # fmt: skip
HELD = (("holding", "b1"), ("table", "b2"), ("table", "b3"), ("clear", "b2"), ("clear", "b3"))


@pytest.mark.parametrize(
    ("said", "fact"),
    [
        ("Unstack the block b1 from on top of block b2.", ("holding", "b1")),
        ("**Unstack b1 from b2.** (Both are free now)", ("holding", "b1")),
        ("**Unstack** b1 from b2:", ("holding", "b1")),
        ("unstack(b1, b2)", ("holding", "b1")),
        ("Unstack `b1` from `b2`", ("holding", "b1")),
        ("Pick up b1 from b2", ("holding", "b1")),
        ("pick-up b3", ("holding", "b3")),
        ("Pick b3 up.", ("holding", "b3")),
        ("Pick up the b3 block from the table (my hand is free)", ("holding", "b3")),
    ],
)
def test_blocks_are_taken_in_other_words(said: str, fact: tuple[str, ...]):
    env = blocks(*TOWER)
    assert env.step(said)[4]["valid"] and fact in env.state.facts


@pytest.mark.parametrize(
    ("said", "fact"),
    [
        ("Stack b1 on top of b3.", ("on", "b1", "b3")),
        ("Stack block b1 onto block b3", ("on", "b1", "b3")),
        ("Put b1 on b3", ("on", "b1", "b3")),
        ("Put down b1 on top of b3", ("on", "b1", "b3")),
        ("**Stack b1 on b3**: now b3 is covered", ("on", "b1", "b3")),
        ("Put down b1 on the table.", ("table", "b1")),
        ("put b1 down onto the table", ("table", "b1")),
        ("PutDown(b1)", ("table", "b1")),
    ],
)
def test_blocks_are_put_in_other_words(said: str, fact: tuple[str, ...]):
    env = blocks(*HELD)
    assert env.step(said)[4]["valid"] and fact in env.state.facts


@pytest.mark.parametrize(
    "said",
    [
        "Unstack b1",
        "Stack b1 under b3",
        "Do not unstack b1 from b2",
        "unstack b1 from b2, then put down b1",
        "Unstack b1 from b2 (then put down b1)",
        "unstack b1 from b2 (wait, that is not allowed)",
        "unstack b1 and b3 from b2",
        "unstack b1 with b3 from b2",
        "unstack b2 from b1",
        "Unstack b1 from b2 (put b1 on the table first)",
        "Unstack b1 from b2 (rejected)",
        "unstack b1 from b2 (pick up the block b3)",
    ],
)
def test_other_words_about_blocks_move_none(said: str):
    env = blocks(*TOWER)
    assert not env.step(said)[4]["valid"] and env.state.facts == frozenset(TOWER)


def test_words_of_the_mystery_domain_have_no_other_meaning():
    env = blocks(*TOWER, mystery=True)
    assert env.step("**Feast `b1` from `b2`** (it craves b2)")[4]["valid"]
    assert env.step("Succumb object b1.")[4]["valid"]
    assert not env.step("put down b1")[4]["valid"]


@pytest.mark.parametrize("kind", [Blocksworld, Gripper, Ferry, Logistics, Tyreworld])
def test_each_wording_means_one_action(kind: Kind):
    world = kind().world
    for text, actions in world.worded.items():
        assert len({action.text for action in actions}) == 1, text
    for action in world.actions:
        assert action in world.read(action.text) and action in world.read(f"{action.text.upper()}.")


def test_a_wording_with_more_objects_has_to_hold():
    env = Logistics()
    env.reset(seed=0)
    env.state.facts = frozenset(
        {("inside", "parcel1", "arden-truck"), ("truck", "arden-truck", "arden-depot")}
    )
    text, *_, info = env.step("unload parcel1 from plane1")
    assert not info["valid"] and "parcel1 is in plane1" in text
    assert not env.step("drive arden-truck from arden-airport to arden-market")[4]["valid"]
    assert env.step("Drive the truck arden-truck from arden-depot to arden-airport")[4]["valid"]
    assert env.step("unload parcel1 from arden-truck at arden-airport")[4]["valid"]
    assert ("at", "parcel1", "arden-airport") in env.state.facts
