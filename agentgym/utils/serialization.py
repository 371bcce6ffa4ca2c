"""Typed conversion of states to and from JSON values, for snapshots.

A state is a dataclass of JSON scalars, lists, tuples, sets, dictionaries with string or integer
keys, enumerations, optional values and nested dataclasses. `to_json` converts it to JSON values.
`from_json` converts it back by the type annotations: tuples are restored as tuples, sets as sets,
and integer keys as integers. A field with `field(metadata=ADDED)` may be missing, as in files of
earlier versions. It then has its default.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import enum
import reprlib
import types
import typing
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

T = TypeVar("T")

ADDED = {"added": True}
"""Metadata of a field that earlier versions did not write."""
_SCALARS = (str, bool, int, float)
_REFUSED = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""Errors of a constructor, or of the conversion of a value of another shape."""


def to_json(value: Any) -> Any:
    """Converts a value to JSON scalars, lists and dictionaries.

    Raises:
        TypeError: for a value of an unsupported type, or a dictionary key that is neither a string
            nor an integer.
    """
    kind = type(value)
    if value is None or kind in _SCALARS:
        return value
    if kind is list or kind is tuple:
        return [to_json(item) for item in value]
    if kind is dict:
        return {_key_to_json(key): to_json(item) for key, item in value.items()}
    if isinstance(value, enum.Enum):
        return to_json(value.value)
    if isinstance(value, _SCALARS):
        return value
    names = _field_names(kind)
    if names is not None:
        fields = [(name, getattr(value, name)) for name in names]
        return {name: v if type(v) in _SCALARS else to_json(v) for name, v in fields}  # fast
    if isinstance(value, (list, tuple)):
        return [to_json(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted((to_json(item) for item in value), key=repr)
    if isinstance(value, dict):
        return {_key_to_json(key): to_json(item) for key, item in value.items()}
    raise TypeError(
        f"A state may hold JSON scalars, lists, tuples, sets, dictionaries, enumerations and "
        f"dataclasses; got {type(value).__name__}: {value!r:.200}."
    )


@cache
def _field_names(kind: type[Any]) -> tuple[str, ...] | None:
    """Returns the names of a dataclass's fields, or None for another class."""
    if not dataclasses.is_dataclass(kind):
        return None
    return tuple(f.name for f in dataclasses.fields(kind))


def from_json(kind: type[T], value: Any) -> T:
    """Converts JSON values to a value of the annotated type. It is the inverse of `to_json`.

    The value shares no list and no dictionary with the JSON, except where the type is `object`.

    Raises:
        ValueError: if the JSON values do not match the type, or the type is not supported.
    """
    try:
        return _decode(kind, value)
    except _REFUSED as error:
        got = reprlib.repr(value)  # of bounded length and depth
        raise ValueError(
            f"Expected the JSON of a {kind}, got {got:.200}: {error!s:.500}"
        ) from error


def _key_to_json(key: Any) -> str:
    if type(key) is str:
        return key
    if isinstance(key, enum.Enum):
        key = key.value
    if isinstance(key, bool) or not isinstance(key, (str, int)):
        raise TypeError(
            f"A dictionary of a state needs string or integer keys, got {type(key).__name__}: "
            f"{key!r:.200}."
        )
    return str(key)


@cache
def _field_types(kind: type) -> dict[str, tuple[Any, bool]]:
    """Returns the type of each field, and whether it may be missing."""
    hints = typing.get_type_hints(kind)
    return {f.name: (hints[f.name], "added" in f.metadata) for f in dataclasses.fields(kind)}


def _decode(kind: Any, value: Any) -> Any:
    if type(value) is kind and kind in _SCALARS:  # most values
        return value
    origin = get_origin(kind) or kind
    if origin in (Union, types.UnionType):
        return _decode_union(get_args(kind), value)
    if origin is Any:
        return to_json(value)  # a copy, which shares no list and no dictionary with the JSON
    if origin is object:
        return value
    if origin is Literal:
        if value not in get_args(kind):
            raise TypeError(f"expected one of {get_args(kind)}, got {reprlib.repr(value)}")
        return value
    if not isinstance(origin, type):
        raise TypeError(f"a state cannot hold a {kind}")
    if issubclass(origin, enum.Enum):
        return origin(value)
    if origin in _SCALARS or origin is types.NoneType:
        return _decode_scalar(origin, value)
    if dataclasses.is_dataclass(origin):
        known = _field_types(origin).items()
        given = {n: hint for n, (hint, added) in known if n in value or not added}
        return origin(**{n: _decode(hint, value[n]) for n, hint in given.items()})
    return _decode_container(kind, origin, value)


def _decode_scalar(kind: type, value: Any) -> Any:
    if kind is float and type(value) is int:
        return float(value)
    # In JSON, true is not a number, although bool is a subclass of int in Python.
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise TypeError(f"expected {kind.__name__}, got {type(value).__name__}")
    return value


def _decode_union(kinds: tuple[Any, ...], value: Any) -> Any:
    if type(value) in kinds:  # 1 is an int if both int and float are possible
        return _decode(type(value), value)
    errors = []
    for kind in kinds:
        try:
            return _decode(kind, value)
        except _REFUSED as error:
            errors.append(str(error)[:200])
    raise TypeError("; ".join(errors))


def _decode_container(kind: Any, origin: type, value: Any) -> Any:
    args = get_args(kind) or (Any, Any)
    if issubclass(origin, collections.abc.Mapping):
        if origin not in (dict, collections.abc.Mapping, collections.abc.MutableMapping):
            raise TypeError(f"a state cannot hold a {kind}: use dict")
        return {_decode_key(args[0], key): _decode(args[1], v) for key, v in value.items()}
    if not isinstance(value, list):
        raise TypeError(f"expected a list, got {type(value).__name__}")
    if origin is tuple:
        if get_args(kind) and args[-1] is not Ellipsis:
            return tuple(_decode(arg, item) for arg, item in zip(args, value, strict=True))
        return tuple(_decode(args[0], item) for item in value)
    if issubclass(origin, tuple) and hasattr(origin, "_fields"):
        hints = typing.get_type_hints(origin).values()
        return origin(*(_decode(hint, item) for hint, item in zip(hints, value, strict=True)))
    if origin in (list, set, frozenset):
        return origin(_decode(args[0], item) for item in value)
    if origin in (collections.abc.Sequence, collections.abc.Iterable):
        return [_decode(args[0], item) for item in value]
    raise TypeError(f"a state cannot hold a {kind}")


def _decode_key(kind: Any, key: str) -> Any:
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return {str(member.value): member for member in kind}[key]
    return int(key) if kind is int else key
