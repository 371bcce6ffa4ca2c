"""Wrappers take no action that their environment refuses, and share no state with the caller."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import data_equivalence

from ..helpers.named import Named
from .test_every_wrapper import OWN_FORMS, every, make

FOLLOWED = ("remember: x", "ask", "reason 0", "cite 0", "```python\nprint(1)\n```", *OWN_FORMS)
"""`OWN_FORMS`, with more that take no turn in the environment."""


def changed(value: Any) -> None:
    """Changes what an environment returned, as a careless caller may."""
    if isinstance(value, dict):
        for part in value.values():
            changed(part)
        value.clear()
    elif isinstance(value, np.ndarray):
        value[...] = 1


@every
def test_what_was_returned_may_be_changed(name: str):
    env, other = make(name), make(name)
    texts = isinstance(env.action_space, gymnasium.spaces.Text)
    env.action_space.seed(0)
    ended = True
    for number in range(60):
        if ended:
            results = [env.reset(seed=number), other.reset(seed=number)]
        else:
            said = FOLLOWED[number % len(FOLLOWED)] if texts else env.action_space.sample()
            results = [env.step(said), other.step(said)]
        assert data_equivalence(results[0], results[1], exact=True)
        ended = len(results[0]) == 5 and bool(results[0][2] or results[0][3])
        for part in results[1]:
            changed(part)


def sayable(env: gymnasium.Env[Any, Any]) -> list[Any]:
    """Returns actions of an environment."""
    return list(FOLLOWED) if isinstance(env.action_space, gymnasium.spaces.Text) else [0, 1]


@every
@pytest.mark.parametrize("bare", [False, True])
def test_no_action_is_taken_before_reset(name: str, bare: bool):
    env = make(name, bare=bare)
    for action in sayable(env):
        with pytest.raises(ResetNeeded):
            env.step(action)
    with pytest.raises(ResetNeeded):
        env.get_wrapper_attr("snapshot")()
    with contextlib.suppress(ResetNeeded, AttributeError):
        env.get_wrapper_attr("expert")()


@every
def test_no_action_is_taken_after_the_end(name: str):
    env = make(name)
    env.action_space.seed(0)
    env.reset(seed=1)
    while not any(env.step(env.action_space.sample())[2:4]):
        pass
    snapshot = json.dumps(env.get_wrapper_attr("snapshot")())
    again = make(name)
    again.reset(seed=2)
    again.get_wrapper_attr("restore")(json.loads(snapshot))
    for action in sayable(env):
        for over in (env, again):
            with pytest.raises(ResetNeeded):
                over.step(action)
    assert json.dumps(env.get_wrapper_attr("snapshot")()) == snapshot


@every
@pytest.mark.parametrize("other", [None, b"+", 1.5, ["+"], {"text": "+"}])
def test_an_action_of_another_type_is_refused_and_changes_nothing(name: str, other: Any):
    env = make(name)
    env.action_space.seed(0)
    env.reset(seed=8)
    env.step(env.action_space.sample())
    snapshot = json.dumps(env.get_wrapper_attr("snapshot")())
    with pytest.raises(TypeError, match=f"got {type(other).__name__}"):
        env.step(other)
    assert json.dumps(env.get_wrapper_attr("snapshot")()) == snapshot


@every
def test_a_string_of_any_class_is_an_action(name: str):
    env, other = make(name), make(name)
    if not isinstance(env.action_space, gymnasium.spaces.Text):
        return
    for number, action in enumerate(FOLLOWED):
        env.reset(seed=number)
        other.reset(seed=number)
        assert data_equivalence(env.step(action), other.step(Named(action)), exact=True)
        snapshots = [json.dumps(each.get_wrapper_attr("snapshot")()) for each in (env, other)]
        assert snapshots[0] == snapshots[1]


@every
@pytest.mark.parametrize("seed", [None, 3])
def test_a_refused_reset_changes_nothing(name: str, seed: int | None):
    env = make(name)
    env.action_space.seed(0)
    env.reset(seed=4)
    env.step(env.action_space.sample())
    before = json.dumps(env.get_wrapper_attr("snapshot")())
    for options in ({"task": "x"}, {"task": ["x"]}, {"tasks": "x"}, {"max_turns": 0}):
        with pytest.raises(ValueError):
            env.reset(seed=seed, options=options)
        assert json.dumps(env.get_wrapper_attr("snapshot")()) == before, options
    with pytest.raises(TypeError, match="options must be a mapping"):
        env.reset(seed=seed, options="x")  # type: ignore[arg-type]
    with pytest.raises(gymnasium.error.Error):
        env.reset(seed=-1)
    assert json.dumps(env.get_wrapper_attr("snapshot")()) == before
