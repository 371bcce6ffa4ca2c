"""FrozenLake: steps of the reference, solvable lakes, an optimal expert."""

from __future__ import annotations

import copy
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.envs.grid.frozen_lake import (
    NAMES,
    STEPS,
    FrozenLake,
    State,
    best_moves,
    make_lake,
    moved,
)

GOLDEN = Path(__file__).parents[4] / "shared" / "golden"
REFERENCE = (None, "left", "down", "right", "up")


def golden(name: str) -> Iterator[dict[str, Any]]:
    """Yields the records of a reference file."""
    with gzip.open(GOLDEN / name, "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)


def of(record: dict) -> State:
    rows = tuple("".join("F" if x in "SF" else x for x in row) for row in record["desc"])
    start = next((r, row.index("S")) for r, row in enumerate(record["desc"]) if "S" in row)
    return State(rows, start, start)


class Slips:
    """Stands in for the random generator of an environment: every slip is `side`."""

    def __init__(self, side: int):
        self.side = side

    def integers(self, low: int, high: int) -> int:
        assert (low, high) == (-1, 2)
        return self.side


@pytest.mark.skipif(not GOLDEN.exists(), reason="needs the golden records")
@pytest.mark.parametrize("slippery", [False, True])
def test_steps_match_the_reference(slippery: bool):
    """Plays the recorded actions. On slippery ice one of the three slips must give the record."""
    kind = "slippery" if slippery else "deterministic"
    env = FrozenLake(slippery=slippery, max_turns=None)
    steps, ends = 0, set()
    for record in golden(f"ragen_frozen_lake_{kind}.jsonl.gz"):
        if "desc" not in record:
            continue
        env.reset(seed=0)
        state = of(record)
        assert state.picture() == record["obs0"]
        terminated = False
        for step in record["steps"]:
            for side in (-1, 0, 1) if slippery else (0,):
                env.state = copy.copy(state)
                env.np_random = Slips(side)  # type: ignore[assignment]
                result = env.step(REFERENCE[step["action"]])
                if result[0] == step["obs"]:
                    break
                if result[2]:  # a slip that was not recorded ended the episode
                    env.reset(seed=0)
            else:
                pytest.fail(f"No slip leads to {step['obs']!r}.")
            _, reward, terminated, truncated, info = result
            assert (reward, terminated, truncated) == (step["reward"], step["done"], False)
            assert info["valid"] == step["info"]["action_is_valid"]
            assert info["success"] == step["info"]["success"]
            assert (env.state.position != state.position) == step["info"]["action_is_effective"]
            state = env.state
            steps += 1
            if terminated:
                ends.add(info["success"])
                break
        assert terminated == record["steps"][-1]["done"]
    assert steps > 40
    assert ends == {False, True}


@given(seed=st.integers(0, 10**6), size=st.integers(2, 6))
def test_the_expert_gets_there_on_ice_that_does_not_slip(seed: int, size: int):
    state = make_lake(np.random.default_rng(seed), size, 0.8)
    for _ in range(size * size):
        name = best_moves(state.lake, False)[state.position]
        state.position = moved(state.lake, state.position, STEPS[NAMES.index(name)])
        if state.ground != "F":
            break
    assert state.ground == "G"


def test_slipping_goes_to_the_sides_but_never_back():
    lake = ("FFF", "FFF", "FFG")
    env = FrozenLake(size=3)
    seen = set()
    for seed in range(60):
        env.reset(seed=seed)
        env.state = State(lake, (1, 1), (1, 1))
        env.step("up")
        seen.add(env.state.position)
    assert seen == {(0, 1), (1, 0), (1, 2)}


def test_several_moves_stop_where_the_episode_does():
    env = FrozenLake(slippery=False, size=2, moves_per_turn=3, frozen=1.0)
    env.reset(seed=0)
    env.state = State(("FG", "FF"), (1, 0), (1, 0))
    text, reward, terminated, _, info = env.step("up || RIGHT || down")
    assert (text, reward, terminated, info["success"]) == ("_√\n__", 1.0, True, True)
    env.reset(seed=0)
    _, _, _, _, info = env.step("up||up||up||up")
    assert not info["valid"]


@pytest.mark.parametrize("kwargs", [{"size": 1}, {"frozen": 0.1}, {"moves_per_turn": 0}])
def test_impossible_arguments_are_refused(kwargs: dict):
    with pytest.raises(ValueError, match=next(iter(kwargs))):
        FrozenLake(**kwargs)
