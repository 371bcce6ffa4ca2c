"""VirtualHome's entertainment: recorded steps of the reference, and solutions from all states."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from pathlib import Path

import pytest

from agentgym.envs.virtualhome.entertainment import FURNITURE, THINGS, Entertainment, State
from agentgym.envs.virtualhome.house import ways

GOLDEN = Path(__file__).parents[4] / "shared" / "golden" / "virtualhome_v2.jsonl.gz"
KITCHEN = {"task": "start/kitchen"}


def bits(state: State) -> list[int]:
    """Returns the reference's observation."""
    here = state.sees_furniture
    table, tv, sofa = (piece in state.close for piece in FURNITURE)
    found = [state.room == room for room in ("kitchen", "bathroom", "bedroom", "living room")]
    for thing in THINGS:
        close, seen = thing in state.close, state.sees(thing)
        found += [seen, close and seen, thing in state.held, thing in state.laid and seen]
    found += [here, tv, state.faces_tv and here, state.tv_on and here]
    return [int(bit) for bit in (*found, here, sofa, state.on_sofa and here, here, table)]


def play(env: Entertainment, *actions: str) -> tuple[float, dict]:
    """Plays possible actions. Returns the last reward and info."""
    reward, info = 0.0, {}
    for action in actions:
        text, reward, _, _, info = env.step(action)
        assert info["valid"] and "Nothing happens" not in text, action
    return reward, info


def started(room: str = "kitchen") -> Entertainment:
    env = Entertainment(max_turns=None)
    env.reset(seed=0, options={"task": f"start/{room}"})
    return env


@pytest.mark.skipif(not GOLDEN.exists(), reason="needs the golden records")
def test_every_recorded_step_is_the_reference_s():
    env = Entertainment(max_turns=50)
    prompts: defaultdict[str, set[str]] = defaultdict(set)
    texts: defaultdict[str, set[str]] = defaultdict(set)
    steps = 0
    with gzip.open(GOLDEN, "rt", encoding="utf-8") as file:
        for record in map(json.loads, file):
            if "steps" not in record:
                continue
            text, info = env.reset(seed=0, options=KITCHEN)
            assert bits(env.state) == record["obs0"]
            assert list(info["admissible"]) == record["actions0"]
            for step in record["steps"]:
                before = env.state
                _, reward, terminated, truncated, info = env.step(step["action_text"])
                assert bits(env.state) == step["obs"]
                assert reward == step["reward"]
                assert (terminated or truncated) == step["done"]
                assert list(info["admissible"]) == step["actions"]
                assert step["succeed"] or env.state == before
                text = env.describe(env.state)
                prompts[text].add(step["prompt_sha1"])
                texts[step["prompt_sha1"]].add(text)
                steps += 1
    assert steps == 650
    assert {len(same) for same in (*prompts.values(), *texts.values())} == {1}


def test_the_automaton_is_as_large_as_the_reference_s():
    env = started()
    seen: defaultdict[tuple, set[tuple]] = defaultdict(set)
    for state in env.ways:
        if not state.done:
            for move in env.moves:
                after = env.apply(state, *move) or state
                seen[(*bits(state), *move)].add(tuple(bits(after)))
    assert len(env.ways) == 576
    assert len({tuple(bits(state)) for state in env.ways}) == 213
    assert sum(len(after) > 1 for after in seen.values()) == 181


def test_every_state_leads_out_by_the_expert_s_way():
    env = started()
    for state, (left, _) in env.ways.items():
        env.reset(seed=0)
        env.state = state
        for still in range(left, 0, -1):
            _, reward, terminated, _, info = env.step(str(env.expert()))
            assert info["valid"]
            assert terminated == (still == 1) == (reward == 1)
        assert env.state.done


@pytest.mark.parametrize(
    ("room", "steps"), [("kitchen", 11), ("living room", 10), ("bathroom", 11), ("bedroom", 11)]
)
def test_the_expert_does_only_what_is_offered(room: str, steps: int):
    env = started(room)
    rewards = []
    for _ in range(steps):
        action = str(env.expert())
        assert action in env._view().admissible
        rewards.append(play(env, action)[0])
    assert rewards == [0.0] * (steps - 1) + [1.0] and env.state.done


FETCH = ("walk to the chips", "grab the chips", "walk to the milk", "grab the milk")


def test_the_tv_needs_a_free_hand():
    env = started()
    play(env, *FETCH, "walk to the living room", "walk to the TV")
    before = env.state
    text, _, _, _, info = env.step("turn on the TV")
    assert env.state == before and text.startswith("Nothing happens") and info["valid"]
    play(env, "walk to the coffee table", "put the milk on the coffee table")
    reward, info = play(
        env, "walk to the TV", "turn on the TV", "walk to the sofa", "sit on the sofa"
    )
    assert reward == 1 and info["success"]


def test_sitting_down_too_early_is_undone_by_standing_up_and_sitting_down_again():
    env = started()
    play(env, *FETCH, "walk to the living room", "walk to the coffee table")
    play(env, "put the chips on the coffee table", "walk to the sofa", "sit on the sofa")
    for action in ("walk to the TV", "walk to the kitchen", "sit on the sofa"):
        before = env.state
        env.step(action)
        assert env.state == before
    play(env, "stand up from the sofa")
    assert env.state.faces_tv and env.state.on_sofa
    reward, _ = play(env, "walk to the TV", "turn on the TV", "walk to the sofa")
    assert reward == 0 and env.state.on_sofa and not env.state.faces_tv
    assert play(env, "sit on the sofa")[0] == 1


def test_walking_to_a_held_thing_leads_to_where_the_simulator_believes_it():
    env = started()
    play(env, "walk to the chips", "grab the chips", "walk to the bedroom", "walk to the chips")
    assert env.state.room == "kitchen" and env.state.held == {"chips"}


def test_what_is_impossible_changes_nothing_and_says_so():
    env = started()
    before = env.state
    text, _, _, _, info = env.step("put the milk on the coffee table")
    assert env.state == before and not info["valid"] and "not possible" in text
    text, _, _, _, info = env.step("watch TV")
    assert env.state == before and not info["valid"] and "turn on the TV" in text
    assert play(env, "WALK TO THE LIVING ROOM", "walk to the tv")[0] == 0


def test_a_held_thing_can_be_put_down_and_taken_again():
    env = started()
    play(env, "walk to the milk", "grab the milk", "walk to the living room")
    play(env, "walk to the coffee table", "put the milk on the coffee table")
    play(env, "walk to the TV", "walk to the coffee table", "grab the milk", "walk to the kitchen")
    assert env.state.held == {"milk"} and env.state.laid == frozenset()


def test_ways_counts_moves_to_the_end():
    class Count(int):
        @property
        def done(self) -> bool:
            return self == 3

    def apply(state: Count, verb: str, target: str) -> Count | None:
        return Count(state + 1) if verb == "up" else Count(state - 1) if state else None

    table = ways(apply, (("up", ""), ("down", "")), Count(0))
    assert {int(state): left for state, (left, _) in table.items()} == {0: 3, 1: 2, 2: 1, 3: 0}
    assert table[Count(1)][1] == ("up", "")
