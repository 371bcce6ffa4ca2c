"""Numbers that functions of users return: every place takes the same ones."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch

from agentgym.agents.action_ranking import make_ranking
from agentgym.agents.search.action_judges import FunctionValue
from agentgym.data.episode import RecordedEpisode, RecordedTurn
from agentgym.errors import ConfigError
from agentgym.judges import make_judge
from agentgym.registration.making import make_env
from agentgym.trainers.audit.given import given_credit
from agentgym.trainers.gateway.played import checked_score
from agentgym.trainers.gateway.programs import as_score
from agentgym.utils.returned_numbers import finite_number
from agentgym.wrappers import RewardFunction

HALVES = (
    *(0.5, Fraction(1, 2), Decimal("0.5"), np.float32(0.5), np.float64(0.5)),
    *(np.array(0.5), torch.tensor(0.5)),
)
NONE = (
    *(math.nan, math.inf, Decimal("NaN"), Decimal("sNaN"), Decimal("Infinity"), np.float32("nan")),
    *("0.5", None, 0.5j, [0.5], {}, np.array([0.5]), Fraction(10**400, 3)),
)


@pytest.mark.parametrize("value", HALVES, ids=repr)
def test_real_numbers_of_every_kind_are_one(value: Any):
    assert finite_number(value) == 0.5 and type(finite_number(value)) is float
    assert finite_number(True) == 1.0


@pytest.mark.parametrize("value", NONE, ids=repr)
def test_everything_else_is_none(value: Any):
    assert finite_number(value) is None


def in_module(function: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setitem(sys.modules, "scores_of_mine", cast(Any, SimpleNamespace(score=function)))
    return "scores_of_mine:score"


def judged(name: str, value: Any) -> Any:
    return make_judge(name)([RecordedEpisode([RecordedTurn("o", "a")])])[0].score


def rewarded(name: str, value: Any) -> Any:
    env = RewardFunction(make_env("NumberLine-v0"), lambda step: value)
    env.reset(seed=0)
    return env.step("+")[1]


PLACES: dict[str, Callable[[str, Any], Any]] = {
    "judge": judged,
    "value": lambda name, value: FunctionValue(name).scores([cast(Any, None)], ["a"])[0],
    "reward": rewarded,
    "ranking": lambda name, value: (
        make_ranking(name)([cast(Any, None)], [["a", "b"]]) == [[0.5, 0.5]] and 0.5
    ),
    "credit": lambda name, value: given_credit(name, [{"task": "", "seed": 0, "turns": [1]}])[1][0],
    "harness": lambda name, value: as_score(value),
    "harness by name": lambda name, value: as_score({"a": value})["a"],  # type: ignore[index]
    "harness by turn": lambda name, value: checked_score([value])[0],
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("value", HALVES, ids=repr)
def test_every_place_takes_every_number(place: str, value: Any, monkeypatch: pytest.MonkeyPatch):
    of_lines = place == "credit"
    name = in_module(lambda *args: [[value]] if of_lines else value, monkeypatch)
    assert PLACES[place](name, value) == 0.5


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("value", [math.nan, Decimal("NaN"), Decimal("sNaN"), "half"], ids=repr)
def test_no_place_takes_what_is_no_number(place: str, value: Any, monkeypatch: pytest.MonkeyPatch):
    of_lines = place == "credit"
    name = in_module(lambda *args: [[value]] if of_lines else value, monkeypatch)
    if place.startswith("harness") and value == "half":
        assert as_score(value) is None and as_score({"a": value}) is None
        return
    with pytest.raises((ConfigError, ValueError), match=r"number|finite|score"):
        PLACES[place](name, value)
