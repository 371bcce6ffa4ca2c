from __future__ import annotations

import inspect
import json
from typing import Any, Protocol, runtime_checkable

import gymnasium
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import agentgym
from agentgym.envs.numbers.number_line import NumberLine
from agentgym.errors import DataError, UnknownArgumentError
from agentgym.utils.arguments import keyword_parameters, own
from agentgym.wrappers import AbridgedObservation, TextWrapper


def test_parameters_have_resolved_types_and_are_read_once():
    def make(size: int = 3, *rest: str, name: str | None = None) -> None: ...

    known = keyword_parameters(make)
    found = {name: (p.annotation, p.default) for name, p in known.items()}
    assert found == {"size": (int, 3), "name": (str | None, None)}
    assert keyword_parameters(make) is known


def test_parameters_of_base_classes_are_included_if_a_class_passes_arguments_on():
    class Base:
        def __init__(self, size: int, depth: int = 1): ...

    class Derived(Base):
        def __init__(self, size: float = 2.0, **kwargs: int): ...

    found = {name: p.annotation for name, p in keyword_parameters(Derived).items()}
    assert found == {"size": float, "depth": int}


@pytest.mark.parametrize(
    ("id", "name"),
    [
        ("Blocksworld-v0", "world"),
        ("VirtualHome-Entertainment-v0", "chore"),
        ("TextWorld-CoinCollector-v0", "kind"),
    ],
)
def test_arguments_that_a_subclass_sets_itself_are_unknown(id: str, name: str):
    options: dict[str, Any] = {name: "x"}
    with pytest.raises(UnknownArgumentError, match=f"unexpected keyword argument '{name}'"):
        gymnasium.make(f"AgentGym/{id}", **options)


@pytest.mark.parametrize("id", ["WebShop-v0", "Retail-v0", "Airline-v0"])
def test_a_folder_whose_name_is_too_long_is_missing(id: str):
    with pytest.raises(DataError):
        gymnasium.make(f"AgentGym/{id}", data_dir="x" * 100_000).reset(seed=0)


def test_numbers_of_numpy_are_those_of_python():
    classes: set[type] = set()
    for id, entry in agentgym.REGISTRY.items():
        if entry.extra or entry.files:
            continue
        plain = gymnasium.make(id)
        cls = type(plain.unwrapped)
        if cls in classes:
            continue
        classes.add(cls)
        known = {name: p.default for name, p in keyword_parameters(cls).items()}
        numbers: dict[str, Any] = {
            name: np.asarray(value)[()]
            for name, value in (known | plain.spec.kwargs).items()  # type: ignore[union-attr]
            if isinstance(value, bool | int | float)
        }
        assert all(isinstance(value, np.generic) for value in numbers.values())
        env = gymnasium.make(id, **numbers)
        for each in (plain, env):
            each.reset(seed=3, options={"max_turns": np.int64(7)})
        before, after = (each.unwrapped.snapshot() for each in (plain, env))  # type: ignore[attr-defined]
        assert json.dumps(before) == json.dumps(after), id
    assert len(classes) > 50


def test_the_spec_of_an_environment_made_with_numbers_of_numpy_is_json():
    made = agentgym.make_env("NumberLine-v0", size=np.int64(7))
    plain = agentgym.make_env("NumberLine-v0", size=7)
    assert made.spec and plain.spec and made.spec.to_json() == plain.spec.to_json()


@given(value=st.recursive(st.integers(0, 9) | st.text(max_size=2), st.lists))
def test_a_value_without_numbers_of_numpy_stays_the_same_object(value: Any):
    assert own(value) is value
    assert own({"a": value})["a"] is value
    assert own([value, np.float32(0.5)]) == [value, 0.5]


@runtime_checkable
class Named(Protocol):
    """Something with a name, as a protocol of a user."""

    def name(self) -> str:
        """Returns the name."""
        ...


class Registered(type):
    """A metaclass of a user."""


def test_subclasses_may_have_a_protocol_or_a_metaclass():
    class Mine(NumberLine, Named):
        def name(self) -> str:
            return "mine"

    class View(TextWrapper, Named):
        def name(self) -> str:
            return "view"

    class Theirs(NumberLine, metaclass=Registered):
        pass

    assert isinstance(View(Mine()), Named) and isinstance(Theirs(), NumberLine)


def test_the_arguments_of_constructors_are_seen():
    """By `help`, editors and type checkers, which take the word of a metaclass's `__call__`."""
    for cls, name in ((NumberLine, "size"), (AbridgedObservation, "by")):
        assert name in inspect.signature(cls).parameters
        assert type(cls).__call__ is type.__call__


def test_numbers_of_numpy_that_a_subclass_passes_on_are_those_of_python():
    class Mine(NumberLine):
        def __init__(self, times: int, **arguments: Any):
            turns: Any = np.prod([times, 2])
            super().__init__(max_turns=turns, **arguments)

    env = Mine(times=np.int64(3))  # type: ignore[arg-type]
    env.reset(seed=0)
    json.dumps(env.snapshot())
    assert type(env.max_turns) is int


def test_a_value_that_is_nested_too_deeply_stays_as_it_is():
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    circle: list[Any] = [np.int64(1)]
    circle.append(circle)
    assert own(deep) is deep and own(circle) is circle
