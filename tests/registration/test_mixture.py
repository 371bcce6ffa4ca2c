"""`Mixture`: several environments as one."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.wrappers import TimeLimit
from hypothesis import given
from hypothesis import strategies as st

from agentgym.agents.search import SearchAgent
from agentgym.errors import ConfigError, SnapshotError, UnknownTaskError
from agentgym.evaluation import evaluate
from agentgym.registration.making import make_env, split_id, tasks_of
from agentgym.registration.mixture import MixedTasks, Mixture, id_in_play
from agentgym.snapshots import restore_snapshot, snapshot_of
from agentgym.wrappers import MultiTrial

IDS = ("NumberLine-v0", "Bandit-v0", "FrozenLake-v0")


def mixture(mix: tuple[int, ...] = (2, 1, 1), **kwargs: Any) -> Mixture:
    return Mixture({id: make_env(id, **kwargs) for id in IDS}, mix)


@given(st.lists(st.tuples(st.integers(1, 7), st.integers(1, 3)), min_size=1, max_size=4), st.data())
def test_tasks_are_interleaved_in_the_proportions_of_the_mix(sizes: Any, data: Any):
    parts = {f"e{i}": [f"t {k}" for k in range(size)] for i, (size, _) in enumerate(sizes)}
    mix = [share for _, share in sizes]
    tasks = MixedTasks(parts, mix)
    listed = list(tasks)
    assert listed == [tasks[i] for i in range(len(tasks))] and tasks[-1] == listed[-1]
    counts = Counter(task.partition(" ")[0] for task in listed)
    assert all(counts[f"e{i}"] * mix[0] == counts["e0"] * share for i, share in enumerate(mix))
    assert set(listed) == {f"{name} {task}" for name, each in parts.items() for task in each}
    assert all(task in tasks for task in listed)
    assert "e0" not in tasks and "e0 other" not in tasks and 3 not in tasks
    i, j = sorted(data.draw(st.tuples(st.integers(0, 9), st.integers(0, 9))))
    assert tasks[i:j] == listed[i:j]


def test_an_episode_is_that_of_its_environment():
    mixed = mixture()
    for id in IDS:
        env = make_env(id)
        task = tasks_of(env).train[3]
        options = {"max_turns": 3}
        observation, info = env.reset(seed=1, options={"task": task, **options})
        found = mixed.reset(seed=1, options={"task": f"{id} {task}", **options})
        assert found == (observation, {**info, "task": f"{id} {task}"})
        assert mixed.get_wrapper_attr("instructions") == env.get_wrapper_attr("instructions")
        assert mixed.spec.id == f"AgentGym/{id}"
        assert mixed.unwrapped is mixed.playing.unwrapped
        for _ in range(3):
            action = info["admissible"][0]
            *result, info = env.step(action)
            *same, told = mixed.step(action)
            assert data_equivalence(result, same)
            assert told == {**info, "task": f"{id} {task}"}
            if any(result[2:]):
                break
        env.close()
    mixed.close()


def test_without_a_task_one_is_sampled_by_the_seed():
    one, two = mixture(), mixture()
    seen = set()
    for seed in range(12):
        assert one.reset(seed=seed) == two.reset(seed=seed)
        seen.add(one.spec.id)
    assert len(seen) == 3


def test_without_a_seed_an_episode_continues_the_stream_of_the_mixture():
    """Also in an environment that was never seeded, and with a task or without one."""
    one, two = mixture(), mixture()
    two.reset(seed=5)
    for env in (one, two):
        env.reset(seed=0)
    task = f"{IDS[1]} {tasks_of(one.envs[IDS[1]]).train[0]}"
    for options in (None, {"task": task}, None, {"task": task}, None, None):
        assert one.reset(options=options) == two.reset(options=options)
        assert one.unwrapped.np_random.integers(10**9) == two.unwrapped.np_random.integers(10**9)
    unseeded = {mixture().reset()[1]["task"] for _ in range(3)}
    assert len(unseeded) > 1


def test_tasks_are_sampled_from_the_split_of_each_environment():
    splits = dict(zip(IDS, ("test", "train", "test"), strict=True))
    envs = {id: make_env(id, split=split) for id, split in splits.items()}
    mixed = Mixture(envs)
    for seed in range(12):
        name, _, task = mixed.reset(seed=seed)[1]["task"].partition(" ")
        assert task in tasks_of(envs[name]).split(splits[name])


def test_the_render_mode_is_that_of_the_environment_in_play():
    mixed = mixture(render_mode="ansi")
    mixed.reset(seed=0)
    assert mixed.render_mode == mixed.playing.render_mode == "ansi" and mixed.render()
    assert mixed.metadata["render_modes"] == ["ansi", "human"]


def limited(**kwargs: Any) -> Mixture:
    return Mixture({name: TimeLimit(make_env(name, **kwargs), 30) for name in IDS})


@pytest.mark.parametrize("wrap", [lambda env: env, lambda env: MultiTrial(env, 2)])
def test_a_snapshot_selects_the_environment_and_continues_exactly(wrap: Any):
    mixed, other = wrap(limited()), wrap(limited())
    for name in IDS:
        task = f"{name} {tasks_of(make_env(name)).train[2]}"
        mixed.reset(seed=3, options={"task": task})
        mixed.step("a")
        snapshot = json.loads(json.dumps(snapshot_of(mixed)))
        after = [mixed.step("a"), mixed.reset()]
        for env in (mixed, other):
            env.reset(seed=7, options={"task": f"{IDS[0]} {tasks_of(make_env(IDS[0])).train[4]}"})
            _, info = restore_snapshot(env, snapshot)
            assert (info["task"], info["turn"]) == (task, 1)
            assert env.unwrapped.spec.id == f"AgentGym/{name}"
            found = [env.step("a"), env.reset()]
            assert data_equivalence(found, after, exact=True)


def test_a_refused_snapshot_changes_nothing():
    mixed = limited()
    tasks = [f"{name} {tasks_of(mixed.envs[name]).train[0]}" for name in IDS]
    mixed.reset(seed=0, options={"task": tasks[0]})
    good = mixed.snapshot()
    mixed.reset(seed=0, options={"task": tasks[1]})
    bad = [None, {}, snapshot_of(mixed.playing.unwrapped), {**good, "env": mixed.snapshot()["env"]}]
    bad += [{**good, "memory": {"name": "other"}}, {**good, "rng": 3}, {**good, "seed": "x"}]
    for snapshot in bad:
        before = mixed.snapshot()
        with pytest.raises(SnapshotError):
            restore_snapshot(mixed, snapshot)
        assert mixed.snapshot() == before and mixed.name == IDS[1]
    restore_snapshot(mixed, good)
    assert mixed.name == IDS[0]


def test_a_search_leaves_the_time_limit_of_the_environment_in_play():
    agent = SearchAgent("best_first", budget=20)
    make = lambda: Mixture({"A": TimeLimit(make_env("FrozenLake-v0"), 12)})  # noqa: E731
    found = evaluate(make, agent, tasks=["A train/0"]).episodes[0]
    alone = evaluate(lambda: make().envs["A"], agent, tasks=["train/0"]).episodes[0]
    assert (found.turns, found.success) == (alone.turns, alone.success)


def test_a_mixture_that_cannot_be_is_refused():
    with pytest.raises(ConfigError, match="mix needs a whole number"):
        mixture((1, 1))
    with pytest.raises(ConfigError, match="mix needs a whole number"):
        mixture((1, 0, 1))
    with pytest.raises(ConfigError, match="different environments"):
        Mixture({})
    with pytest.raises(ConfigError, match=r"have no spaces, got \['a b', 'c'\]"):
        Mixture({"a b": make_env(IDS[0]), "c": make_env(IDS[1])})
    with pytest.raises(UnknownTaskError):
        mixture().reset(options={"task": "train/0"})


def test_the_id_in_play_has_the_arguments_of_its_name():
    """Two games that differ in their arguments are two games: see `RoleBaselines`."""
    names = "KuhnPoker-v0:hands=1", "KuhnPoker-v0:hands=2", "LeducPoker-v0"
    parts = {name: split_id(name) for name in names}
    mixed = Mixture({name: make_env(id, **kwargs) for name, (id, kwargs) in parts.items()})
    found = {}
    for name in names:
        mixed.reset(seed=0, options={"task": f"{name} {tasks_of(mixed.envs[name]).train[0]}"})
        found[name] = id_in_play(mixed)
    assert found == {name: f"AgentGym/{name}" for name in names}
    alone = make_env("KuhnPoker-v0", hands=2)
    assert id_in_play(alone) == "AgentGym/KuhnPoker-v0"
    assert id_in_play(mixed.envs[names[0]]) == "AgentGym/KuhnPoker-v0"
