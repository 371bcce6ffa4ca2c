"""NetHack and MiniHack as environments. The engine is tested where nle is installed."""

from __future__ import annotations

import importlib.util
import json
import pickle
from enum import IntEnum
from typing import Any

import pytest

from agentgym.cli.command_line import WRONG_USE
from agentgym.cli.main import main
from agentgym.errors import ConfigError, MissingExtraError
from agentgym.integrations.nethack import DEPTHS, RANKS, NetHack, action_names, progress_of
from agentgym.registration.making import make_env

installed = importlib.util.find_spec("nle") and importlib.util.find_spec("minihack")
needs_engine = pytest.mark.skipif(not installed, reason="needs nle and minihack")


class CompassDirection(IntEnum):
    N = 107
    SE = 110


class CompassDirectionLonger(IntEnum):
    N = 75


class Command(IntEnum):
    PICKUP = 44
    NUM_1 = 49


def test_names_of_actions():
    names = action_names([*CompassDirection, *CompassDirectionLonger, *Command])
    assert names == {"north": 0, "southeast": 1, "far north": 2, "pickup": 3, "1": 4}


def test_progress_is_that_of_the_better_level():
    assert progress_of(1, 1) == DEPTHS[0] and progress_of(5, 1) == DEPTHS[4]
    assert progress_of(1, 10) == RANKS[9] and progress_of(99, 99) == DEPTHS[-1]
    assert [*DEPTHS] == sorted(DEPTHS) and [*RANKS] == sorted(RANKS)


@pytest.mark.skipif(bool(installed), reason="nle is installed")
def test_a_missing_engine_names_the_command():
    with pytest.raises(MissingExtraError, match="pip install nle minihack") as found:
        make_env("NetHack-v0")
    assert isinstance(found.value, ImportError)
    copy = pickle.loads(pickle.dumps(found.value))
    assert str(copy) == str(found.value)
    assert main(["eval", "NetHack-v0"]) == WRONG_USE


@needs_engine
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("task_id", ["NetHackScore-v0", "MiniHack-Room-5x5-v0"])
def test_games_are_replayed_exactly(task_id: str):
    env = NetHack(task_id=task_id, max_turns=100)
    first, info = env.reset(seed=0, options={"task": "test/1"})
    assert env.reset(seed=5, options={"task": "test/1"})[0] == first, "the task sets the game"
    assert ("@" in first and "Dlvl:1" in first and "far north" in info["admissible"]) or env.mini
    for action in ("north", "east", "nonsense", "south", "west"):
        text, *_, info = env.step(action)
        assert info["valid"] == (action != "nonsense")
    saved = json.loads(json.dumps(env.snapshot()))
    after = [env.step(action)[:4] for action in ("south", "east", "east")]
    other: Any = NetHack(task_id=task_id, max_turns=100)
    assert other.restore(saved)[0] == text
    assert [other.step(action)[:4] for action in ("south", "east", "east")] == after


@needs_engine
@pytest.mark.filterwarnings("ignore")
def test_stairs_end_a_room():
    env = NetHack(task_id="MiniHack-Room-5x5-v0", max_turns=200)
    env.reset(seed=0, options={"task": "test/0"})
    over, reward, info = False, 0.0, {}
    while not over:
        rows = env.state.screen.split("\n")
        (y, x), (v, u) = (
            next((i, row.index(sign)) for i, row in enumerate(rows[:22]) if sign in row[:80])
            for sign in "@>"
        )
        way = "south" * (v > y) + "north" * (v < y) + "east" * (u > x) + "west" * (u < x)
        _, reward, over, _, info = env.step(way)
    assert info["success"] and info["progress"] == 1 and reward == 1


@needs_engine
def test_arguments_of_the_engine_are_checked():
    with pytest.raises(ConfigError, match="NetHackChallenge"):
        NetHack(task_id="NetHackChallenge-v0")
    with pytest.raises(ConfigError, match="Did you mean"):
        NetHack(task_id="MiniHack-Room-5x5")
    with pytest.raises(ConfigError, match="cannot be made"):
        NetHack(settings={"nonsense": 1})
