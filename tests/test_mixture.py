"""`Mixture`: several environments as one."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from gymnasium.utils.env_checker import data_equivalence
from hypothesis import given
from hypothesis import strategies as st

from agentgym.errors import ConfigError, UnknownTaskError
from agentgym.making import make_env, split_id, tasks_of
from agentgym.mixture import MixedTasks, Mixture, id_in_play

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


def test_a_mixture_that_cannot_be_is_refused():
    with pytest.raises(ConfigError, match="mix needs a whole number"):
        mixture((1, 1))
    with pytest.raises(ConfigError, match="mix needs a whole number"):
        mixture((1, 0, 1))
    with pytest.raises(ConfigError, match="different environments"):
        Mixture({})
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
