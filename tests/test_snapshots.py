"""Snapshots from elsewhere: a damaged one raises SnapshotError and changes nothing."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.agents import RandomAgent, View
from agentgym.envs.numbers.number_line import NumberLine
from agentgym.errors import AgentGymError, SnapshotError
from agentgym.registration.entry import Entry
from agentgym.registration.games import make_aec, make_parallel
from agentgym.registration.making import full_id, make_env
from agentgym.registration.registry import REGISTRY
from agentgym.registration.single_seat import SingleSeat
from agentgym.snapshots import restore_snapshot, snapshot_of
from agentgym.utils.arguments import FREE, keyword_parameters
from agentgym.utils.serialization import from_json
from agentgym.wrappers import HistoryObservation, MultiTrial

from .helpers.echo import Echo

SINGLE = (
    "NumberLine-v0 WebShop-v0 Sokoban-v0 Countdown-v0 Wordle-v0 TextCraft-v0 TicTacToe-v0 "
    "Werewolf-v0 ResourceTrading-v0 Overcooked-TomatoSalad-v0"
).split()
GAMES = "TicTacToe-v0 Werewolf-v0 ResourceTrading-v0 KuhnPoker-v0 Codenames-v0".split()


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


HOSTILE = st.sampled_from(
    [
        *(None, True, -1, 0, 1, 5, 10**6, 10**30, -(10**400), 0.5, -1e308, float("nan")),
        *(float("inf"), "", "no", "player_7", "test/99999999", "\ud800", [], {}, [None], [[1]]),
        *({"a": 1}, {"0": []}, ["player_0", "player_0"], nested(5000)),
    ]
) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=4,
)


def paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Returns the places of all values in a JSON value."""
    items: Any = value.items() if isinstance(value, dict) else ()
    items = enumerate(value[:3]) if isinstance(value, list) else items
    return [path, *(p for key, inner in items for p in paths(inner, (*path, key)))]


def mutated(good: dict[str, Any], data: st.DataObject) -> Any:
    """Returns a copy in which values are replaced or deleted."""
    bad = copy.deepcopy(good)
    for _ in range(data.draw(st.integers(1, 2))):
        *parents, last = data.draw(st.sampled_from(paths(good))) or (None,)
        if last is None:
            return data.draw(HOSTILE)
        try:
            place: Any = bad
            for key in parents:
                place = place[key]
            if data.draw(st.booleans()):
                place[last] = data.draw(HOSTILE)
            else:
                del place[last]
        except (LookupError, TypeError):  # the first mutation has removed it
            continue
    return bad


def check(env: Any, good: dict[str, Any], data: st.DataObject) -> None:
    """Restores a damaged snapshot, which raises SnapshotError or succeeds, and the good one."""
    bad = mutated(good, data)
    kept = env.snapshot()
    try:
        env.restore(bad)
    except SnapshotError as error:
        assert len(str(error)) < 5000
        assert env.snapshot() == kept
    env.restore(good)
    assert json.loads(json.dumps(env.snapshot())) == good


def played(env: Any, turns: int) -> Any:
    view = View.start(env, str(env.get_wrapper_attr("tasks").train[0]), 3)
    for _ in range(turns):
        [action] = RandomAgent().act([view])
        view.observation, _, terminated, truncated, view.info = env.step(action)
        if terminated or truncated:
            break
    return env


ENVS: dict[str, Any] = {}


def cached(key: str, make: Any) -> tuple[Any, dict[str, Any]]:
    """Returns an environment after some turns and its snapshot; hypothesis asks often."""
    if key not in ENVS:
        env = make()
        ENVS[key] = env, json.loads(json.dumps(env.snapshot()))
    return ENVS[key]


@pytest.mark.parametrize("id", SINGLE)
@settings(max_examples=60)
@given(data=st.data())
def test_damaged_snapshots_of_environments(id: str, data: st.DataObject):
    env, good = cached(id, lambda: played(make_env(id), 3).unwrapped)
    check(env, good, data)


@pytest.mark.parametrize("kind", ["aec", "parallel"])
@pytest.mark.parametrize("id", GAMES)
@settings(max_examples=60)
@given(data=st.data())
def test_damaged_snapshots_of_games(id: str, kind: str, data: st.DataObject):
    def make() -> Any:
        env: Any = (make_aec if kind == "aec" else make_parallel)(full_id(id)).unwrapped
        env.reset(seed=1)
        for _ in range(3):
            if kind == "aec":
                agent = env.agent_selection
                env.step(env.game.script("random", agent, env.game.np_random))
            else:
                acting = env.game.acting
                env.step({a: env.game.script("random", a, env.game.np_random) for a in acting})
        return env

    check(*cached(f"{kind} {id}", make), data)


@settings(max_examples=100)
@given(data=st.data())
def test_damaged_snapshots_of_wrappers(data: st.DataObject):
    def make() -> Any:
        return played(HistoryObservation(MultiTrial(NumberLine(size=2), n=5)), 6)

    check(*cached("wrapped", make), data)


@pytest.mark.parametrize("snapshot", [None, 3, "text", [], {}, {"env": nested(5000)}])
def test_values_that_are_no_snapshots(snapshot: Any):
    for env in (Echo(), MultiTrial(Echo(), n=2)):
        with pytest.raises(SnapshotError, match="Expected a snapshot of"):
            env.restore(snapshot)
    for make in (make_aec, make_parallel):
        env = make(full_id("TicTacToe-v0")).unwrapped
        env.reset(seed=0)
        with pytest.raises(SnapshotError):
            env.restore(snapshot)
        with pytest.raises(SnapshotError):
            env.game.restore(snapshot)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("turn",), "x"),
        (("turn",), -5),
        (("turn",), 10**9),
        (("over",), "no"),
        (("last", "progress"), 7.0),
        (("last", "progress"), float("nan")),
        (("last", "rewards"), {"unknown": 1.0}),
        (("last", "terminated"), True),
        (("rng", "has_uint32"), 10**30),
        (("rng", "state", "state"), -1),
        (("seed",), "x"),
        (("state", "position"), nested(5000)),
    ],
)
def test_the_envelope_of_a_snapshot_is_checked(place: tuple[str, ...], value: Any):
    env = NumberLine(max_turns=10)
    env.reset(seed=0)
    good = json.loads(json.dumps(env.snapshot()))
    bad = copy.deepcopy(good)
    inner = bad
    for key in place[:-1]:
        inner = inner[key]
    assert place[-1] in inner
    inner[place[-1]] = value
    with pytest.raises(SnapshotError):
        env.restore(bad)
    assert json.loads(json.dumps(env.snapshot())) == good


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("agents", ["player_1", "player_0"]),
        ("agents", ["player_9"]),
        ("said", 5),
        ("said", {"player_0": []}),
        ("said", {"player_9": ["x"]}),
        ("rewards", {"player_0": float("nan"), "player_1": 0.0}),
        ("rewards", {}),
        ("cumulative", {"player_0": "1"}),
        ("selection", "player_9"),
        ("next", "player_9"),
    ],
)
def test_a_damaged_cycle_changes_nothing(key: str, value: Any):
    env = make_aec(full_id("TicTacToe-v0")).unwrapped
    env.reset(seed=0)
    later: Any = make_aec(full_id("TicTacToe-v0")).unwrapped
    later.reset(seed=1)
    later.step(later.game.script("random", later.agent_selection, later.game.np_random))
    bad = json.loads(json.dumps(later.snapshot()))
    bad[key] = value
    before = env.snapshot(), env.agent_selection, env.game.acting, env.rewards
    with pytest.raises(SnapshotError):
        env.restore(bad)
    assert (env.snapshot(), env.agent_selection, env.game.acting, env.rewards) == before


def test_a_message_about_a_deep_value_is_short():
    with pytest.raises(ValueError, match="Expected the JSON of") as caught:
        from_json(int, nested(100_000))
    assert len(str(caught.value)) < 1000


def test_the_count_of_the_outermost_time_limit_is_part_of_a_snapshot_of_the_environment():
    env = gymnasium.make("AgentGym/NumberLine-v0", max_episode_steps=3)
    env.reset(seed=0)
    env.step("hop")
    saved = json.loads(json.dumps(snapshot_of(env)))
    steps = [env.step("hop") for _ in range(2)]
    assert [step[3] for step in steps] == [False, True]
    restore_snapshot(env, saved)
    assert [env.step("hop") for _ in range(2)] == steps


def test_the_count_of_a_time_limit_is_part_of_a_snapshot():
    env = HistoryObservation(gymnasium.make("AgentGym/NumberLine-v0", max_episode_steps=4))
    env.reset(seed=0)
    env.step("hop")
    saved = json.loads(json.dumps(env.snapshot()))
    steps = [env.step("hop") for _ in range(3)]
    assert [step[3] for step in steps] == [False, False, True]
    env.restore(saved)
    assert [env.step("hop") for _ in range(3)] == steps
    with pytest.raises(SnapshotError, match="TimeLimit"):
        env.restore({**saved, "env": saved["env"]["env"]})
    for elapsed in (-1, "2", 0.5, True):
        with pytest.raises(SnapshotError):
            env.restore({**saved, "env": {**saved["env"], "memory": elapsed}})


@pytest.mark.parametrize("options", [{}, {"max_episode_steps": 9, "disable_env_checker": True}])
def test_a_made_environment_needs_no_reset_before_a_restore(options: dict[str, Any]):
    env, other = (gymnasium.make("AgentGym/NumberLine-v0", **options) for _ in range(2))
    env.reset(seed=0)
    env.step("hop")
    found = restore_snapshot(other, json.loads(json.dumps(snapshot_of(env))))
    assert found[1]["turn"] == 1
    assert [other.step("hop") for _ in range(2)] == [env.step("hop") for _ in range(2)]


PLAYED = [
    each.id
    for each in REGISTRY.values()
    if each.extra is None and not each.files and "Large" not in each.id
]


def others(env: Any, entry: Entry) -> Iterator[tuple[str, Any]]:
    """Yields arguments with other values, of the game or the environment itself."""
    author = type(env.game if isinstance(env, SingleSeat) else env)
    for name, parameter in keyword_parameters(author).items():
        value = entry.kwargs.get(name, parameter.default)
        if name in FREE or not isinstance(value, bool | int):
            continue
        changed = [not value] if isinstance(value, bool) else [value - 1, value + 1, value + 2]
        yield from ((name, each) for each in changed)


@pytest.mark.parametrize("id", PLAYED)
def test_a_snapshot_is_refused_by_an_environment_with_other_arguments(id: str):
    env: Any = played(make_env(id), 2).unwrapped
    good = json.loads(json.dumps(env.snapshot()))
    tried = 0
    for name, value in others(env, REGISTRY[id]):
        if tried == 2:
            break
        try:
            other: Any = make_env(id, **{name: value}).unwrapped
        except (AgentGymError, ValueError):  # no such value
            continue
        with pytest.raises(SnapshotError, match=f"{name} = |with the same data_dir"):
            other.restore(good)
        tried += 1
    same: Any = make_env(id).unwrapped
    same.restore(good)
    for each in (good, good["state"].get("game", {})):
        each.pop("arguments", None)
    same.restore(good)  # as before snapshots had arguments


class Sized(Echo):
    """An environment with arguments that may be given by position, and a secret."""

    def __init__(self, size: Any = 5, api_key: str = "", **kwargs: Any):
        super().__init__(**kwargs)


@pytest.mark.parametrize(
    ("one", "other"),
    [(Sized(7), Sized(size=7)), (Sized(size=np.int64(7)), Sized(7)), (Sized(5), Sized())],
)
def test_arguments_are_the_same_however_they_are_given(one: Sized, other: Sized):
    one.reset(seed=0)
    other.reset(seed=0)
    for each, goes_on in ((one, other), (other, one)):
        goes_on.restore(json.loads(json.dumps(each.snapshot())))
        with pytest.raises(SnapshotError, match="with size = 8"):
            Sized(8).restore(each.snapshot())


def test_a_snapshot_holds_no_secret():
    env = Sized(api_key="hunter2")
    env.reset(seed=0)
    assert "hunter2" not in json.dumps(env.snapshot())
    Sized(api_key="another").restore(env.snapshot())
