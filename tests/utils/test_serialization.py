from __future__ import annotations

import enum
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.utils.serialization import from_json, to_json


class Colour(enum.Enum):
    RED = "r"
    BLUE = "b"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Point(NamedTuple):
    x: int
    y: float


@dataclass
class Leaf:
    name: str
    weight: float = 0.0


@dataclass
class State:
    number: int
    flag: bool
    share: float
    text: str
    maybe: int | None
    pair: tuple[int, str]
    many: tuple[float, ...]
    leaves: list[Leaf]
    cells: set[tuple[int, int]]
    frozen: frozenset[str]
    by_number: dict[int, list[str]]
    by_colour: dict[Colour, Level]
    nested: dict[str, dict[int, tuple[int, ...]]]
    colour: Colour
    point: Point
    choice: Literal["a", "b"]
    mixed: int | str | list[int]
    leaf: Leaf | None = None
    anything: Any = None
    mapping: Mapping[str, float] = field(default_factory=dict)
    sequence: Sequence[int] = ()


text = st.text(st.characters(exclude_categories=()), max_size=5)
number = st.integers(-(2**70), 2**70)
share = st.floats(allow_nan=False)
leaf = st.builds(Leaf, text, share)
states = st.builds(
    State,
    number=number,
    flag=st.booleans(),
    share=share,
    text=text,
    maybe=st.none() | number,
    pair=st.tuples(number, text),
    many=st.lists(share, max_size=3).map(tuple),
    leaves=st.lists(leaf, max_size=3),
    cells=st.sets(st.tuples(number, number), max_size=3),
    frozen=st.frozensets(text, max_size=3),
    by_number=st.dictionaries(number, st.lists(text, max_size=2), max_size=3),
    by_colour=st.dictionaries(st.sampled_from(Colour), st.sampled_from(Level)),
    nested=st.dictionaries(
        text, st.dictionaries(number, st.lists(number, max_size=2).map(tuple)), max_size=2
    ),
    colour=st.sampled_from(Colour),
    point=st.builds(Point, number, share),
    choice=st.sampled_from(["a", "b"]),
    mixed=number | text | st.lists(number, max_size=2),
    leaf=st.none() | leaf,
    anything=st.none() | text | st.lists(number, max_size=2),
    mapping=st.dictionaries(text, share, max_size=2),
    sequence=st.lists(number, max_size=2),
)


def types_of(value: Any) -> Any:
    """Returns nested types, which `==` does not compare (1 == 1.0 == True)."""
    if isinstance(value, dict):
        return {key: types_of(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value), [types_of(item) for item in value]
    if hasattr(value, "__dict__") and not isinstance(value, enum.Enum):
        return type(value), types_of(vars(value))
    return type(value)


@given(states)
def test_what_is_written_is_read_back_with_its_types(state: State):
    written = json.loads(json.dumps(to_json(state)))
    again = from_json(State, written)
    assert again == state
    assert types_of(again) == types_of(state)
    assert json.dumps(to_json(again)) == json.dumps(to_json(state))


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (int, "1"),
        (int, True),
        (float, True),
        (bool, 1),
        (str, None),
        (list[int], {"a": 1}),
        (list[int], "12"),
        (tuple[int, int], [1, 2, 3]),
        (Leaf, {"weight": 1.0}),
        (Leaf, [1]),
        (Colour, "green"),
        (Literal["a"], "b"),
        (int | None, "x"),
        (dict[int, str], {"one": "x"}),
        (Point, [1]),
    ],
)
def test_json_of_another_shape_is_refused(kind: Any, value: Any):
    with pytest.raises(ValueError, match="Expected the JSON of a"):
        from_json(kind, value)


@pytest.mark.parametrize("kind", [np.ndarray, Counter[str], bytes, type, "int"])
def test_a_type_no_state_may_hold_is_refused(kind: Any):
    with pytest.raises(ValueError, match="Expected the JSON of a"):
        from_json(kind, [])


def test_whole_numbers_become_floats_where_floats_are_declared():
    assert type(from_json(float, 1)) is float
    either: Any = int | float
    assert type(from_json(either, 1)) is int
    assert type(from_json(tuple, [1])) is tuple


@pytest.mark.parametrize("kind", [dict[str, Any], Any, dict, dict | None])
def test_what_is_read_shares_nothing_with_the_json(kind: Any):
    written = {"rows": [[1]]}
    again = from_json(kind, written)
    again["rows"][0].append(2)
    again["more"] = 3
    assert written == {"rows": [[1]]}


@pytest.mark.parametrize("value", [b"x", object(), np.int64(1), np.zeros(1), {1.5: 1}, {(1,): 2}])
def test_what_json_cannot_hold_is_named(value: Any):
    with pytest.raises(TypeError, match=type(value).__name__ + "|float|tuple"):
        to_json(value)
