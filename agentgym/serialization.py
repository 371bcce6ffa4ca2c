"""Typed conversion of states to and from JSON values, so that a snapshot can cross processes.

A state is a dataclass of JSON scalars, lists, tuples, sets, dictionaries with string or integer
keys, optional values and further dataclasses. `to_json` writes it, `from_json` reads it back with
the annotated types: tuples come back as tuples, sets as sets, integer keys as integers.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin

T = TypeVar("T")


def to_json(value: Any) -> Any:
    """Returns the value as JSON scalars, lists and dictionaries.

    Raises:
        TypeError: for a value that JSON cannot hold.
    """
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_json(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, (list, tuple)):
        return [to_json(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted((to_json(item) for item in value), key=repr)
    if isinstance(value, dict):
        return {str(key): to_json(item) for key, item in value.items()}
    raise TypeError(
        f"A state may hold JSON scalars, lists, tuples, sets, dictionaries and dataclasses; "
        f"got {type(value).__name__}: {value!r}."
    )


def from_json(kind: type[T], value: Any) -> T:
    """Returns a value of the annotated type from its JSON form (inverse of `to_json`).

    Raises:
        ValueError: if the JSON does not have the shape of the type.
    """
    try:
        return _decode(kind, value)
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"Expected the JSON of a {kind}, got {value!r:.200}: {error}") from error


@cache
def _field_types(kind: type) -> dict[str, Any]:
    hints = typing.get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


def _decode(kind: Any, value: Any) -> Any:
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        if value is None:
            return None
        return _decode(next(arg for arg in args if arg is not type(None)), value)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return kind(**{n: _decode(hint, value[n]) for n, hint in _field_types(kind).items()})
    if origin is tuple:
        if len(args) == 2 and args[1] is Ellipsis:
            return tuple(_decode(args[0], item) for item in value)
        return tuple(_decode(arg, item) for arg, item in zip(args, value, strict=True))
    if origin in (list, set, frozenset):
        return origin(_decode(args[0], item) for item in value)
    if origin is dict:
        return {_key(args[0], key): _decode(args[1], item) for key, item in value.items()}
    if kind is float and isinstance(value, int):
        return float(value)
    if isinstance(kind, type) and kind in (str, int, bool, float) and not isinstance(value, kind):
        raise TypeError(f"expected {kind.__name__}, got {type(value).__name__}")
    return value


def _key(kind: Any, key: str) -> Any:
    return int(key) if kind is int else key
