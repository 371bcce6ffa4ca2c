from __future__ import annotations

import importlib.util
import shutil
import sys

import pytest

from agentgym.envs.scienceworld import env as module
from agentgym.envs.scienceworld.env import VARIATIONS, ScienceWorld, in_order, split_of
from agentgym.errors import ConfigError, MissingExtraError

installed = pytest.mark.skipif(
    importlib.util.find_spec("scienceworld") is None or shutil.which("java") is None,
    reason="needs the extra scienceworld and Java",
)


@pytest.fixture
def anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulates the package and Java. Neither is needed before the first reset."""
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr(module.shutil, "which", lambda name: name)


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"agentgym-suite\[scienceworld\]"):
        ScienceWorld()
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr(module.shutil, "which", lambda name: None)
    with pytest.raises(ConfigError, match="apt install default-jre-headless"):
        ScienceWorld()


def test_tasks(anywhere: None):
    assert sum(VARIATIONS.values()) == 7207
    env = ScienceWorld()
    kinds = {task.split("/")[1] for task in (*env.tasks.train, *env.tasks.test)}
    assert len(kinds) == 23 and "grow-plant" not in kinds
    assert len({t.split("/")[1] for t in ScienceWorld(kinds="all").tasks.train}) == 30
    env = ScienceWorld(kinds="boil", test_on="dev")
    assert env.tasks.train == tuple(f"train/boil/{i}" for i in range(14))
    assert env.tasks.test == tuple(f"dev/boil/{i}" for i in range(14, 21))
    for count in VARIATIONS.values():
        parts = [i for part in split_of(count).values() for i in part]
        assert parts == list(range(count)) and all(split_of(count).values())


def test_bad_arguments(anywhere: None):
    with pytest.raises(ConfigError, match="Did you mean: boil"):
        ScienceWorld(kinds="boyl")
    with pytest.raises(ConfigError, match="at least one"):
        ScienceWorld(kinds=[])
    with pytest.raises(ConfigError, match="openDoors"):
        ScienceWorld(simplifications=["openDoor"])
    with pytest.raises(ValueError, match="test_on"):
        ScienceWorld(test_on="train")


def test_lists_are_in_order():
    assert in_order("See:\n\tb\n\ta\nAlso:\n\td\n\tc\n") == "See:\n\ta\n\tb\nAlso:\n\tc\n\td"
    assert in_order("") == ""


@pytest.mark.slow
@installed
def test_the_solution_earns_all_points_twice_in_a_row():
    env = ScienceWorld(kinds=["find-living-thing", "chemistry-mix"])
    for seed in range(2):
        _, info = env.reset(seed=seed)
        assert info["progress"] < 0.2 and not info["admissible"]
        total, terminated = 100 * info["progress"], False
        while not terminated:
            _, reward, terminated, truncated, info = env.step(env.expert() or "")
            total += reward
            assert not truncated
        assert total == pytest.approx(100)
        assert info["success"] and info["progress"] == 1


@installed
def test_a_wrong_focus_loses():
    env = ScienceWorld(kinds="boil")
    env.reset(seed=0)
    observation, reward, terminated, _, info = env.step("focus on agent")
    assert terminated and reward <= -100 and not info["success"]
    assert observation.endswith("The task has failed.")
    assert env.expert() is None


@pytest.mark.slow
@installed
def test_two_environments_do_not_disturb_each_other():
    one, other = ScienceWorld(kinds="boil"), ScienceWorld(kinds="melt")
    start = one.reset(seed=0)[0]
    other.reset(seed=0)
    for env in (one, other):
        command = env.expert()
        assert command is not None
        env.step(command)
    assert one.reset(seed=0)[0] == start
    one.step("open nothing at all")
    assert one.step("nonsense")[4]["valid"] is False
    assert one.expert() is None


@installed
def test_listed_actions():
    env = ScienceWorld(kinds="boil", list_actions=True)
    _, info = env.reset(seed=0)
    assert len(info["admissible"]) > 50
    assert env.step(info["admissible"][0])[4]["valid"]


def test_nothing_is_imported_before_it_is_needed(anywhere: None):
    before = "scienceworld" in sys.modules
    ScienceWorld()
    assert ("scienceworld" in sys.modules) == before
