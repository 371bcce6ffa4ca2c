"""JSON schemas of type hints, and checks of JSON values against type hints."""

from __future__ import annotations

import functools
import inspect
import math
import types
import typing
from collections.abc import Callable
from typing import Any, Literal, NotRequired, Required, Union, get_args, get_origin

from agentgym.errors import did_you_mean

_SCALARS: dict[Any, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    types.NoneType: "null",
}
LARGEST_INTEGER = 2**63
"""Bound of the absolute value of integers in calls."""


def typed_parameters(function: Callable[..., Any], skip: int = 0) -> dict[str, tuple[Any, Any]]:
    """Returns type hint and default of each parameter of a function.

    Args:
        function: the function.
        skip: number of parameters at the start that are left out.

    Raises:
        TypeError: for a parameter without a type hint, or one that cannot be given by name.
    """
    hints = typing.get_type_hints(function)
    found = {}
    for parameter in list(inspect.signature(function).parameters.values())[skip:]:
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise TypeError(
                f"The parameters of a tool are given by name, but {function.__name__} has "
                f"{str(parameter)!r}."
            )
        if parameter.name not in hints:
            raise TypeError(
                f"The parameter {parameter.name!r} of the tool {function.__name__} needs a type "
                f"hint, such as {parameter.name}: str."
            )
        found[parameter.name] = hints[parameter.name], parameter.default
    return found


def schema_of(hint: Any, where: str) -> dict[str, Any]:
    """Returns the JSON schema of a type hint.

    Args:
        hint: the type hint.
        where: place of the hint, for messages.

    Raises:
        TypeError: for an unsupported type.
    """
    if hint in _SCALARS:
        return {"type": _SCALARS[hint]}
    if hint is Any or hint is object:
        return {}
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Literal:
        return {"enum": list(inner)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [schema_of(kind, where) for kind in inner]}
    if (origin or hint) is list:
        return {"type": "array", "items": schema_of(inner[0] if inner else Any, where)}
    if (origin or hint) is dict:
        values = schema_of(inner[1] if inner else Any, where)
        return {"type": "object", "additionalProperties": values}
    if typing.is_typeddict(hint):
        fields = _fields(hint)
        return {
            "type": "object",
            "properties": {name: schema_of(kind, where) for name, kind in fields.items()},
            "required": [*_required(hint)],
            "additionalProperties": False,
        }
    raise TypeError(
        f"{where} has the type {hint!r}. Parameters of tools are str, int, float, bool, Literal, "
        "list, dict, TypedDict, or unions of these and None."
    )


def written(hint: Any) -> str:
    """Returns a type hint in the words of JSON, such as "list of string"."""
    if hint in _SCALARS:
        return _SCALARS[hint]
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Literal:
        return " | ".join(map(repr, inner))
    if origin in (Union, types.UnionType):
        return " | ".join(map(written, inner))
    if (origin or hint) is list:
        return f"list of {written(inner[0])}" if inner else "list"
    if typing.is_typeddict(hint):
        fields = _fields(hint).items()
        return f"{{{', '.join(f'{name}: {written(kind)}' for name, kind in fields)}}}"
    return "object" if (origin or hint) is dict else "any"


def check_value(value: Any, hint: Any, where: str) -> Any:
    """Returns a JSON value that matches a type hint. An integer is also a number.

    Args:
        value: the value.
        hint: a type hint that `schema_of` supports.
        where: the place of the value, the subject of the message.

    Raises:
        ValueError: if the value does not match. The message is a sentence for the agent.
    """
    if hint in _SCALARS:
        if _is(value, hint):
            return float(value) if hint is float and abs(value) < LARGEST_INTEGER else value
        raise ValueError(f"{where} must be {written(hint)}, got {value!r:.80}.")
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Literal:
        if any(value == option and type(value) is type(option) for option in inner):
            return value
    elif origin in (Union, types.UnionType):
        for kind in inner:
            try:
                return check_value(value, kind, where)
            except ValueError:
                continue
    elif (origin or hint) is list:
        if isinstance(value, list):
            kind = inner[0] if inner else Any
            return [check_value(v, kind, f"{where}, entry {i + 1},") for i, v in enumerate(value)]
    elif typing.is_typeddict(hint):
        if isinstance(value, dict):
            return _check_fields(value, hint, where)
    elif (origin or hint) is dict:
        if isinstance(value, dict):
            kind = inner[1] if inner else Any
            return {k: check_value(v, kind, f"{where}, key {k[:40]!r},") for k, v in value.items()}
    else:
        return value
    raise ValueError(f"{where} must be {written(hint)}, got {value!r:.80}.")


def _is(value: Any, kind: type) -> bool:
    if kind is bool or isinstance(value, bool):
        return kind is bool and isinstance(value, bool)
    if isinstance(value, int):
        return kind in (int, float) and abs(value) < LARGEST_INTEGER
    return isinstance(value, kind) and (kind is not float or math.isfinite(value))


@functools.cache  # types live as long as the process
def _fields(hint: Any) -> dict[str, Any]:
    """Returns the types of the keys of a `TypedDict`. It must not be modified."""
    return typing.get_type_hints(hint)


@functools.cache
def _required(hint: Any) -> tuple[str, ...]:
    """Returns the required keys of a `TypedDict`, also if its annotations are strings."""
    hints = typing.get_type_hints(hint, include_extras=True).items()
    if hint.__total__:
        return tuple(name for name, kind in hints if get_origin(kind) is not NotRequired)
    return tuple(name for name, kind in hints if get_origin(kind) is Required)


def _check_fields(value: dict[str, Any], hint: Any, where: str) -> dict[str, Any]:
    fields = _fields(hint)
    for name in value:
        if name not in fields:
            raise ValueError(
                f"{where} has the unknown key {name[:40]!r}.{did_you_mean(name[:40], fields)} "
                f"The keys are {', '.join(fields)}."
            )
    for name in _required(hint):
        if name not in value:
            raise ValueError(f"{where} needs the key {name!r}.")
    return {n: check_value(v, fields[n], f"{where}, key {n!r},") for n, v in value.items()}
