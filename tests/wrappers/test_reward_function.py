"""`RewardFunction`: the transitions that the function receives, and the rewards it may return."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from agentgym.envs.numbers.number_line import NumberLine
from agentgym.envs.planning.blocksworld import Blocksworld
from agentgym.errors import ConfigError
from agentgym.wrappers import HistoryObservation, RewardFunction, WeightedReward
from agentgym.wrappers.reward_function import Transition


def wrapped(function: Callable[[Transition], Any], **kwargs: Any) -> RewardFunction:
    return RewardFunction(NumberLine(size=5, **kwargs), function)


def test_the_function_receives_the_transition():
    seen: list[Transition] = []
    env = wrapped(lambda transition: seen.append(transition) or 0.5, invalid_penalty=0.25)
    first, _ = env.reset(seed=0)
    second, *_ = env.step("dance")
    third, *_ = env.step(env.get_wrapper_attr("expert")())
    assert [(t.observation, t.next_observation) for t in seen] == [(first, second), (second, third)]
    assert seen[0].action == "dance"
    assert seen[0].reward == -0.25
    assert not seen[0].info["valid"] and seen[1].info["valid"]
    assert not seen[0].terminated and not seen[0].truncated


@pytest.mark.parametrize(("solve", "end"), [(True, (True, False)), (False, (False, True))])
def test_the_end_of_an_episode_is_in_the_transition(solve: bool, end: tuple[bool, bool]):
    seen: list[Transition] = []
    env = wrapped(lambda transition: seen.append(transition) or 0.0, max_turns=4)
    env.reset(seed=0)
    ended = False
    while not ended:
        action = env.get_wrapper_attr("expert")() if solve else "dance"
        _, _, terminated, truncated, _ = env.step(action)
        ended = terminated or truncated
        assert (seen[-1].terminated, seen[-1].truncated) == (terminated, truncated)
    assert (seen[-1].terminated, seen[-1].truncated) == end


@pytest.mark.parametrize(
    ("result", "reward", "terms"),
    [
        (2, 2.0, {"custom": 2.0}),
        (np.float32(0.5), 0.5, {"custom": 0.5}),
        (True, 1.0, {"custom": 1.0}),
        ({"a": 1, "b": -0.25}, 0.75, {"a": 1.0, "b": -0.25}),
        ({}, 0.0, {}),
    ],
)
def test_numbers_and_terms(result: Any, reward: float, terms: dict[str, float]):
    env = wrapped(lambda transition: result)
    env.reset(seed=0)
    _, found, _, _, info = env.step("+")
    assert (found, info["reward_terms"]) == (reward, terms)
    assert type(found) is float
    assert all(type(value) is float for value in info["reward_terms"].values())


@pytest.mark.parametrize("result", [float("nan"), float("inf"), None, "high", "1", {"a": None}])
def test_anything_but_finite_numbers_is_refused(result: Any):
    env = wrapped(lambda transition: result)
    env.reset(seed=0)
    with pytest.raises(ConfigError, match="The reward function must return finite numbers"):
        env.step("+")


def test_a_function_is_needed():
    with pytest.raises(ConfigError, match=r"Callable or str; got 0\.5"):
        wrapped(0.5)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="success, progress, expert or module:function, got 'r"):
        wrapped("return")  # type: ignore[arg-type]


def changed(transition: Transition) -> float:
    """Whether the observation has changed."""
    return float(transition.observation != transition.next_observation)


def test_a_restored_episode_has_the_same_transitions():
    env = wrapped(changed)
    env.reset(seed=3)
    env.step("+")
    snapshot = json.loads(json.dumps(env.snapshot()))
    expected = [env.step(action)[1] for action in ("dance", "-")]
    other = wrapped(changed)
    other.reset(seed=9)
    other.restore(snapshot)
    assert [other.step(action)[1] for action in ("dance", "-")] == expected


def test_it_sees_the_observations_of_the_wrappers_inside():
    seen: list[str] = []
    env = RewardFunction(
        HistoryObservation(NumberLine(size=5)), lambda t: seen.append(t.observation) or 0.0
    )
    first, _ = env.reset(seed=0)
    env.step("dance")
    assert seen == [first]


@pytest.mark.parametrize(
    ("function", "terms"),
    [
        (lambda transition: 0.5, ()),
        (lambda transition: {"a": 0.5} if transition.info["valid"] else {}, ("a", "b")),
    ],
)
def test_a_reset_has_the_terms_of_the_steps(function: Any, terms: tuple[str, ...]):
    env = RewardFunction(NumberLine(size=5), function, terms=terms)
    names = set(terms or ("custom",))
    zeros = dict.fromkeys(names, 0.0)
    assert env.reset(seed=0)[1]["reward_terms"] == zeros
    assert env.step("+")[-1]["reward_terms"].keys() == names
    assert env.step("dance")[-1]["reward_terms"].keys() == names
    assert env.restore(env.snapshot())[1]["reward_terms"] == zeros
    weighted = WeightedReward(env, {min(names): 2.0})
    weighted.reset(seed=0)
    assert weighted.step("+")[1] == 1.0
    with pytest.raises(ConfigError, match=r"'task'\. This environment has"):
        WeightedReward(env, {"task": 2.0}).reset(seed=0)


@pytest.mark.parametrize("result", [0.5, {"c": 1.0}])
def test_other_terms_than_the_given_ones_are_refused(result: Any):
    env = RewardFunction(NumberLine(size=5), lambda transition: result, terms=("a", "b"))
    env.reset(seed=0)
    with pytest.raises(ConfigError, match=r"must return the terms \('a', 'b'\), got \['c"):
        env.step("+")


@pytest.mark.parametrize("solve", [True, False])
def test_rewards_by_name_are_the_success_and_the_rise_of_progress(solve: bool):
    for name, total in {"success": float(solve), "progress": None}.items():
        env = RewardFunction(NumberLine(size=99, max_turns=99), name)
        env.reset(seed=0)
        rewards, ended, info = [], False, {}
        while not ended:
            first = not rewards
            action = env.get_wrapper_attr("expert")() if solve or first else "dance"
            _, reward, terminated, truncated, info = env.step(action)
            rewards.append(reward)
            ended = terminated or truncated
        assert 0 < info["progress"] <= 1 and info["success"] == solve
        assert sum(rewards) == pytest.approx(info["progress"] if total is None else total)
        assert name != "success" or not any(rewards[:-1])


def test_a_function_may_be_named():
    env = RewardFunction(NumberLine(size=5), f"{__name__}:changed")
    env.reset(seed=0)
    assert env.step("dance")[1] == 1.0


def test_the_expert_grades_each_action():
    env = RewardFunction(Blocksworld(), "expert")
    env.reset(seed=0)
    right = env.get_wrapper_attr("expert")()
    kind = right.split()[0]
    for action, grade in (
        (f"{kind} nothing", 0.5),
        ("", 0.0),
        ("look around", 0.0),
        (f"Action: {right.upper()}.", 1.0),
        (f"<think>Not {kind} nothing.</think>\n{right}", 1.0),
    ):
        env.reset(seed=0)
        assert env.step(action)[1] == grade
    ended = False
    env.reset(seed=0)
    while not ended:
        _, reward, ended, *_ = env.step(env.get_wrapper_attr("expert")())
        assert reward == 1
