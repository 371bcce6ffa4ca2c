"""VirtualHome's food preparation: recorded steps of the reference, and shortest solutions."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from pathlib import Path

import pytest

from agentgym.envs.virtualhome.food_preparation import VARIANTS, FoodPreparation, State

GOLDEN = Path(__file__).parents[4] / "shared" / "golden" / "virtualhome_v1.jsonl.gz"


def bits(state: State) -> list[int]:
    """Returns the reference's observation."""
    here = state.room == "kitchen"
    rooms = [state.room == room for room in ("kitchen", "bathroom", "bedroom", "living room")]
    thing = [state.sees_thing, state.close_to_thing and state.sees_thing, state.holding]
    appliance = [here, state.close_to_appliance, state.open and here]
    return [int(bit) for bit in (*rooms, *thing, *appliance, state.inside and state.sees_thing)]


@pytest.mark.skipif(not GOLDEN.exists(), reason="needs the golden records")
def test_every_recorded_step_is_the_reference_s():
    env = FoodPreparation(max_turns=None)
    prompts: defaultdict[str, set[str]] = defaultdict(set)
    texts: defaultdict[str, set[str]] = defaultdict(set)
    steps = 0
    with gzip.open(GOLDEN, "rt", encoding="utf-8") as file:
        for record in map(json.loads, file):
            if "steps" not in record:
                continue
            _, info = env.reset(seed=0, options={"task": "start/kitchen"})
            assert bits(env.state) == record["obs0"]
            assert list(info["admissible"]) == record["actions0"]
            for step in record["steps"]:
                _, reward, terminated, _, info = env.step(step["action_text"])
                assert bits(env.state) == step["obs"]
                assert reward == step["reward"]
                text = env.describe(env.state)
                prompts[text].add(step["prompt_sha1"])
                texts[step["prompt_sha1"]].add(text)
                if terminated:
                    assert step["done"]
                    break
                assert list(info["admissible"]) == step["actions"]
                steps += 1
    assert steps > 600
    assert len(prompts) > 10
    assert {len(same) for same in (*prompts.values(), *texts.values())} == {1}


def test_texts_are_equal_exactly_where_the_reference_s_prompts_are():
    env = FoodPreparation()
    texts: defaultdict[str, set[tuple[int, ...]]] = defaultdict(set)
    for state in env.ways:
        # The reference's prompt depends on all bits but the last one, `pancake_in_microwave`.
        texts[env.describe(state)].add(tuple(bits(state)[:-1]))
    assert len(texts) == 18
    assert all(len(prompts) == 1 for prompts in texts.values())


def test_a_thing_in_the_open_appliance_is_not_offered_to_be_grabbed():
    env = FoodPreparation(max_turns=None)
    _, info = env.reset(seed=0, options={"task": "start/kitchen"})
    way = ("walk to the pancake", "grab the pancake", "walk to the microwave")
    for action in (*way, "open the microwave", "put the pancake in the microwave"):
        *_, info = env.step(action)
    rooms = tuple(f"walk to the {room}" for room in ("living room", "bathroom", "bedroom"))
    assert env.state.inside and env.state.close_to_thing
    assert info["admissible"] == (*rooms, "open the microwave", "close the microwave")
    *_, info = env.step("grab the pancake")
    assert info["valid"] and env.state.holding, "it is possible all the same"


def test_from_afar_a_thing_in_the_open_appliance_looks_like_a_loose_one():
    env = FoodPreparation()
    inside, loose = State(open=True, inside=True), State(open=True)
    assert env.describe(inside) == env.describe(loose)
    assert env.offered(inside) == env.offered(loose)


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_expert_takes_six_steps(variant: str):
    env = FoodPreparation(variant=variant)
    env.reset(seed=0, options={"task": "start/kitchen"})
    rewards = [env.step(str(env.expert()))[1] for _ in range(6)]
    assert rewards == [0, 0, 0, 0, 0, 1]


def test_the_automaton_is_as_large_as_the_reference_s():
    states = FoodPreparation().ways
    assert len(states) == 52
    assert len({tuple(bits(state)) for state in states}) == 19


def test_every_state_leads_out_by_the_expert_s_way():
    env = FoodPreparation(max_turns=None)
    for state, (left, _) in env.ways.items():
        env.reset(seed=0)
        env.state = state
        for still in range(left, 0, -1):
            _, reward, terminated, _, info = env.step(str(env.expert()))
            assert info["valid"]
            assert terminated == (still == 1) == (reward == 1)
        assert env.state.done


def test_what_is_impossible_changes_nothing_and_says_so():
    env = FoodPreparation()
    env.reset(seed=0, options={"task": "start/kitchen"})
    before = env.state
    text, _, _, _, info = env.step("put the pancake in the microwave")
    assert env.state == before and not info["valid"]
    assert "not possible" in text
    with pytest.raises(ValueError, match="variant"):
        FoodPreparation(variant="soup")
