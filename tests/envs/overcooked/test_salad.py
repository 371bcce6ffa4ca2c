"""Overcooked: recorded steps of the reference, an optimal expert that recovers from detours."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agentgym.envs.overcooked.kitchen import State, visible
from agentgym.envs.overcooked.salad import Salad

GOLDEN = Path(__file__).parents[4] / "shared" / "golden"
RECIPES = {
    "tomato salad": "overcooked_tomato_salad",
    "lettuce-tomato salad": "overcooked_tomato_lettuce_salad",
}


def golden(name: str) -> Iterator[dict[str, Any]]:
    """Yields the episodes of a reference file."""
    with gzip.open(GOLDEN / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
        yield from (record for record in map(json.loads, file) if "steps" in record)


def vector(env: Salad) -> list[int]:
    """Returns the reference's observation, without the index of the task."""
    layout, state, found = env.layout, env.state, []
    for name in layout.homes:
        if name != "bowl":
            seen = visible(state, state.where[name], 2)
            found += [*state.where[name], state.chops[name]] if seen else [0, 0, 0]
    for square in (state.where["bowl"], *layout.boards, layout.delivery, state.cook):
        found += list(square) if visible(state, square, 2) else [0, 0]
    return found


@pytest.mark.skipif(not GOLDEN.exists(), reason="needs the golden records")
@pytest.mark.parametrize("recipe", RECIPES)
def test_steps_match_the_reference(recipe: str):
    env = Salad(recipe=recipe, max_turns=None)
    env.rewards = replace(env.rewards, again=True)  # as in the reference
    prompts: defaultdict[str, set[str]] = defaultdict(set)
    texts: defaultdict[str, set[str]] = defaultdict(set)
    steps, ends = 0, set()
    for record in golden(RECIPES[recipe]):
        _, info = env.reset(seed=0, options={"task": "start/1,4"})
        assert list(info["admissible"]) == record["actions0"]
        terminated = False
        for step in record["steps"]:
            text, reward, terminated, _, info = env.step(step["action_text"])
            assert reward == pytest.approx(step["reward"], abs=1e-9)
            assert info["primitive_steps"] == step["env_step"]
            assert info["macro_action_steps"] == step["macro_action_steps"]
            assert vector(env) == step["obs"][:-7]
            assert terminated == step["done"]
            prompts[text].add(step["prompt_sha1"])
            texts[step["prompt_sha1"]].add(text)
            steps += 1
            if terminated:
                ends.add(info["success"])
                break
            assert list(info["admissible"]) == step["actions"]
        assert terminated == record["steps"][-1]["done"]
    assert steps > 700
    assert ends == ({False, True} if recipe == "tomato salad" else {False})
    assert {len(same) for same in (*prompts.values(), *texts.values())} == {1}


@pytest.mark.parametrize(
    ("recipe", "macros", "primitives", "discounted"),
    [("tomato salad", 6, 28, 0.9205), ("lettuce-tomato salad", 10, 45, 0.9477)],
)
def test_the_expert_is_optimal(recipe: str, macros: int, primitives: int, discounted: float):
    env = Salad(recipe=recipe)
    env.reset(seed=0, options={"task": "start/1,4"})
    total, count = 0.0, 0
    while not env.state.served:
        before = env.state.steps
        _, reward, _, _, info = env.step(env.expert())
        total += 0.99**before * reward
        count += 1
        assert info["success"] == env.state.served == (info["progress"] == 1)
    assert (count, env.state.steps) == (macros, primitives)
    assert total == pytest.approx(discounted, abs=5e-5)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**20),
    recipe=st.sampled_from(sorted(RECIPES)),
    kitchen=st.sampled_from(["A", "C"]),
    detour=st.lists(st.integers(0, 8), max_size=12),
)
@example(seed=0, recipe="lettuce-tomato salad", kitchen="A", detour=[2, 4, 7, 2, 3, 4, 0])
def test_the_expert_recovers_from_any_detour(seed, recipe, kitchen, detour):
    env = Salad(recipe=recipe, kitchen=kitchen, max_turns=None)
    _, info = env.reset(seed=seed)
    for number in detour:
        if info["admissible"]:
            _, _, _, _, info = env.step(info["admissible"][number % len(info["admissible"])])
    env.state.steps = 0
    for _ in range(40):
        if not info["success"]:
            _, _, _, _, info = env.step(env.expert())
    assert info["success"]


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**20), moves=st.lists(st.integers(0, 7), max_size=25))
def test_nothing_is_lost_or_doubled(seed, moves):
    env = Salad(recipe="lettuce-tomato salad")
    _, info = env.reset(seed=seed)
    for number in moves:
        if not info["admissible"]:
            break
        _, _, _, _, info = env.step(info["admissible"][number])
        state: State = env.state
        assert set(state.where) == {"tomato", "lettuce", "onion", "bowl"}
        assert len(set(state.bowl)) == len(state.bowl)
        assert all(state.where[name] == state.where["bowl"] for name in state.bowl)
        if state.holding:
            assert state.where[state.holding] == state.cook


def walk(env: Salad, *actions: str) -> tuple[str, dict[str, Any]]:
    """Plays actions from the reference's start and returns the last observation and info."""
    text, info = env.reset(seed=0, options={"task": "start/1,4"})
    for action in actions:
        text, _, _, _, info = env.step(action)
        assert info["valid"], (action, info["admissible"])
    return text, info


def test_the_wall_of_kitchen_c_takes_one_thing_a_counter():
    env = Salad(kitchen="C")
    put = ["pick up the tomato", "put the tomato on the counter"]
    _, info = walk(env, *put)
    assert info["admissible"][-1] == "walk to the counter"
    assert (env.state.where["tomato"], env.state.holding, env.state.cook) == ((3, 3), "", (3, 4))
    walk(env, *put, "take the bowl", "put the bowl on the counter")
    assert env.state.where["bowl"] == (2, 3)
    walk(env, *put)
    env.state.cook = (3, 2)  # also reachable from the other side
    text, *_ = env.step("pick up the tomato")
    assert "You hold a tomato" in text
    assert env.state.cook == (3, 2)


def test_the_state_key_tells_apart_what_the_text_hides():
    env = Salad()
    put = ["pick up the tomato", "put the tomato on the cutting board"]
    text, raw = walk(env, *put, "take the bowl")
    other, chopped = walk(env, *put, "chop the tomato", "take the bowl")
    assert text == other
    assert raw["state_key"] != chopped["state_key"]
    assert walk(env, "chop nothing", *put, "take the bowl")[1]["state_key"] == raw["state_key"]


def test_the_shift_ends_after_200_steps():
    env = Salad(max_turns=None, clock=True)
    env.reset(seed=0)
    for turn in range(1, 201):
        text, _, terminated, truncated, info = env.step("chop nothing")
        assert (terminated, truncated, info["success"]) == (turn == 200, False, False)
        assert text.endswith(f"Steps left: {200 - turn}.")


@pytest.mark.parametrize(
    "kwargs", [{"recipe": "soup"}, {"kitchen": "B"}, {"radius": -1}, {"rewards": "x"}, {"gamma": 0}]
)
def test_impossible_arguments_are_refused(kwargs: dict[str, Any]):
    with pytest.raises(ValueError, match=next(iter(kwargs))):
        Salad(**kwargs)
