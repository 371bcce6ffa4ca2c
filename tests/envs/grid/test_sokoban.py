"""Sokoban: transitions, rewards and ends of the reference, solvable rooms, an optimal expert."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.envs.grid.sokoban import Room, Sokoban, State, make_room, push, solution, stuck

GOLDEN = Path(__file__).parents[4] / "shared" / "golden"
REFERENCE = (None, "up", "down", "left", "right")


def golden(name: str) -> Iterator[dict[str, Any]]:
    """The records of a reference file."""
    with gzip.open(GOLDEN / name, "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)


@pytest.mark.skipif(not GOLDEN.exists(), reason="needs the golden records")
@pytest.mark.parametrize("kind", ["6x6_1box", "8x8_2box"])
def test_steps_match_the_reference(kind: str):
    env = Sokoban(max_turns=100)  # the limit of the reference
    steps = 0
    for record in golden(f"ragen_sokoban_{kind}.jsonl.gz"):
        if "obs0" not in record:
            continue
        env.reset(seed=0)
        env.state = State.of(record["obs0"])
        assert env.state.picture() == record["obs0"]
        for step in record["steps"]:
            before = env.state.player
            text, reward, terminated, truncated, info = env.step(REFERENCE[step["action"]])
            assert text == step["obs"]
            assert (terminated or truncated) == step["done"]
            assert terminated == info["success"]
            assert reward == pytest.approx(step["reward"], abs=1e-9)
            assert info["success"] == step["info"]["success"]
            assert (env.state.player != before) == step["info"]["action_is_effective"]
            steps += 1
            if step["done"]:
                break
    assert steps > 100


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), boxes=st.integers(1, 2))
def test_every_room_can_be_solved_and_none_is_solved_already(seed: int, boxes: int):
    state = make_room(f"train/{seed}", 5 + boxes, boxes)
    assert len(state.boxes) == len(state.targets) == boxes
    assert not state.boxes & state.targets
    assert State.of(state.picture()) == state
    room = Room(state.walls, state.targets)
    moves = solution(room, state.boxes, state.player)
    assert moves
    where = state.boxes, state.player
    for name in moves:
        from agentgym.envs.grid.moves import DIRECTIONS

        assert not stuck(room, where[0])
        where = push(room, *where, DIRECTIONS[name])
    assert where[0] == state.targets


def test_an_episode_does_not_change_the_room_of_the_next_one():
    env = Sokoban()
    start, _ = env.reset(seed=0, options={"task": "train/3"})
    moved = [env.step(env.expert())[0] for _ in range(3)]  # type: ignore[arg-type]
    assert moved[-1] != start
    assert env.reset(seed=0, options={"task": "train/3"})[0] == start


def test_a_start_in_a_dead_end_has_no_solution():
    state = State.of("######\n#X__O#\n#_P__#\n######")
    assert solution(Room(state.walls, state.targets), state.boxes, state.player) is None


def test_a_push_off_a_target_costs_what_a_push_onto_it_gave():
    env = Sokoban()
    env.reset(seed=0)
    env.state = State.of("#######\n#_PXO_#\n#__XO_#\n#######")
    rewards = [env.step("right")[1] for _ in range(2)]
    assert rewards == pytest.approx([0.9, -1.1])


def test_the_picture_tells_all_symbols_apart():
    picture = "#####\n#SX_#\n#√O_#\n#####"
    assert State.of(picture).picture() == picture


@pytest.mark.parametrize("kwargs", [{"size": 5}, {"boxes": 0}, {"boxes": 3}])
def test_impossible_arguments_are_refused(kwargs: dict):
    with pytest.raises(ValueError, match=next(iter(kwargs))):
        Sokoban(**kwargs)


@pytest.mark.slow
def test_no_room_of_a_test_task_is_one_of_a_training_task():
    train = {make_room(f"train/{i}", 6, 1).picture() for i in range(100)}
    assert not train & {make_room(f"test/{i}", 6, 1).picture() for i in range(40)}
