from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from agentgym.envs.numbers.number_line import NumberLine
from agentgym.errors import ConfigError
from agentgym.wrappers import AdmissibleAction

from ..helpers.echo import Echo


def test_numbers_say_the_admissible_actions():
    env = AdmissibleAction(Echo(admissible=("left", "right", "stop")), 5)
    _, info = env.reset(seed=0)
    assert info["action_mask"].tolist() == [1, 1, 1, 0, 0]
    assert env.action_masks().tolist() == [True, True, True, False, False]
    assert env.action_text(1) == "right"
    assert env.step(1)[0] == "right"
    _, _, terminated, _, info = env.step(np.int64(2))
    assert terminated
    assert not info["action_mask"].any()


@pytest.mark.parametrize("number", [3, 4, -1, 10**9])
def test_a_number_without_an_action_is_invalid_and_never_raises(number: int):
    env = AdmissibleAction(Echo(admissible=("left", "right", "stop"), invalid_penalty=1.0), 5)
    env.reset(seed=0)
    observation, reward, _, _, info = env.step(number)
    expected = f"Invalid action number {number}: there are 3 actions, numbered from 0."
    assert observation.startswith(expected)
    assert (reward, info["valid"]) == (-1.0, False)


@pytest.mark.parametrize("other", ["left", 1.0, None, np.array([0, 1])])
def test_what_is_no_number_is_the_callers_error(other: Any):
    env = AdmissibleAction(Echo(admissible=("left", "right", "stop")), 5)
    env.reset(seed=0)
    with pytest.raises(TypeError, match="expected one integer, got"):
        env.step(other)


def test_the_mask_may_be_observed():
    env = AdmissibleAction(Echo(admissible=("left", "right", "stop")), 5, observe_mask=True)
    observation, info = env.reset(seed=0)
    assert observation in env.observation_space
    assert observation["action_mask"].tolist() == info["action_mask"].tolist() == [1, 1, 1, 0, 0]
    observation["action_mask"][:] = 0
    assert info["action_mask"].any(), "one may be changed without the other"
    assert not env.step(2)[0]["action_mask"].any()


def test_an_environment_of_free_text_is_refused():
    with pytest.raises(ConfigError, match="lists no admissible actions: its actions are free text"):
        AdmissibleAction(Echo(), 5).reset(seed=0)


def test_too_many_actions_raise_or_the_first_are_kept():
    many = Echo(admissible=tuple("abcdef"))
    with pytest.raises(ConfigError, match="6 actions are admissible, but max_actions is 4"):
        AdmissibleAction(many, 4).reset(seed=0)
    env = AdmissibleAction(many, 4, overflow="first")
    _, info = env.reset(seed=0)
    assert info["admissible"] == tuple("abcd")
    assert info["action_mask"].all()
    assert not env.step(4)[4]["valid"] if env.action_space.contains(4) else True


def test_wrong_arguments_are_refused():
    for kwargs in ({"max_actions": 0}, {"max_actions": 2, "overflow": "ignore"}):
        with pytest.raises(ConfigError):
            AdmissibleAction(Echo(), **kwargs)  # type: ignore[arg-type]


def test_the_expert_becomes_a_number():
    env = AdmissibleAction(NumberLine(), 2)
    env.reset(seed=0)
    number = env.expert()
    assert number is not None
    assert env.action_text(number) == env.unwrapped.expert()  # type: ignore[attr-defined]
