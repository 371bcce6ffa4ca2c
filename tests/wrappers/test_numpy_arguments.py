"""Wrappers take numbers of NumPy as those of Python."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from gymnasium.utils.env_checker import data_equivalence

from agentgym.utils.arguments import keyword_parameters

from .test_every_wrapper import every, make, play


def of_numpy(value: Any) -> Any:
    """Returns a value with the numbers in it as those of NumPy."""
    if isinstance(value, bool | int | float):
        return np.asarray(value)[()]
    if isinstance(value, dict):
        return {key: of_numpy(each) for key, each in value.items()}
    return type(value)(map(of_numpy, value)) if type(value) in (list, tuple) else value


@every
def test_numbers_of_numpy_make_the_same_wrapper(name: str):
    env: Any = make(name)
    known = {k: p.default for k, p in keyword_parameters(type(env)).items() if k != "env"}
    given = of_numpy({k: v for k, v in known.items() if isinstance(v, bool | int | float)})
    other = type(env)(make(name).env, **given | of_numpy(env._saved_kwargs))  # type: ignore[attr-defined]
    assert data_equivalence(play(env, 3, 20), play(other, 3, 20), exact=True)
    left, right = (each.get_wrapper_attr("snapshot")() for each in (env, other))
    assert json.dumps(left) == json.dumps(right)


def test_an_option_of_numpy_is_kept_as_a_number_of_python():
    env = make("reflector")
    env.reset(seed=3, options={"max_turns": np.int64(3)})
    json.dumps(env.get_wrapper_attr("snapshot")())
