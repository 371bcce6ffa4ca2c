"""Parsing of `key=value` arguments, and checks of the arguments of environments."""

from __future__ import annotations

import contextlib
import functools
import inspect
import json
import math
import numbers
import operator
import os
import re
import reprlib
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np

from agentgym.errors import ConfigError, UnknownArgumentError, did_you_mean
from agentgym.utils.masking import MASK, is_secret, masked, masked_text

RESET_OPTIONS = ("task", "max_turns")
PIXELS = "rgb_array"
"""The render mode of pictures."""
LARGEST = 1e100
"""Largest absolute value of a number, as that of a reward."""
_PYTHON_WORDS = {"True": True, "False": False, "None": None}
_KINDS: dict[Any, Any] = {
    bool: (bool, np.bool_),
    int: numbers.Integral,
    float: numbers.Real,
    str: str,
    type(None): type(None),
    Callable: Callable,
    Mapping: Mapping,
    dict: Mapping,
    list: (list, tuple),
    tuple: (list, tuple),
    Sequence: Sequence,
    os.PathLike: os.PathLike,
}
"""Annotation -> types that its values must be instances of. Other annotations are not checked."""
_COMMA = re.compile(r",(?=\s*[A-Za-z_][\w-]*=)")
"""A comma between two arguments. Other commas belong to a value."""


def split_arguments(text: str) -> list[str]:
    """Splits "k=4,keep_first=true" at the commas between arguments. "" has none."""
    return _COMMA.split(text) if text else []


def parse_arguments(pairs: Iterable[str]) -> dict[str, Any]:
    """Parses arguments such as "size=20", "render_mode=ansi" and "data_dir=~/shop".

    A value is parsed as JSON (numbers, true, false, null, "text", [..], {..}) or Python's True,
    False or None. Any other value is a string. Hyphens in keys become underscores.

    Raises:
        ConfigError: for a word without "=", a key given twice or a value that is nested too deeply.
    """
    arguments: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        key = key.strip().replace("-", "_")
        if not equals or not key.isidentifier():
            raise ConfigError(f"Expected key=value, got {masked_text(pair)!r}.")
        if key in arguments:
            raise ConfigError(f"The argument {key!r} is given twice.")
        arguments[key] = _value(value)
    return arguments


def _value(text: str) -> Any:
    if text in _PYTHON_WORDS:
        return _PYTHON_WORDS[text]
    try:
        return json.loads(text)
    except ValueError:
        return text
    except RecursionError:
        raise ConfigError(f"The value {text[:40]!r}... is nested too deeply.") from None


def optional(known: Mapping[str, inspect.Parameter]) -> dict[str, inspect.Parameter]:
    """Returns the parameters with a default. Subclasses set the other parameters of their bases."""
    return {name: p for name, p in known.items() if p.default is not p.empty}


@functools.lru_cache(maxsize=1024)
def keyword_parameters(*makers: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """Returns the keyword parameters of functions and classes by name. The result is cached.

    If the `__init__` of a class takes `**kwargs`, the parameters of its base classes are included.
    """
    found: dict[str, inspect.Parameter] = {}
    for maker in makers:
        functions = [maker]
        if isinstance(maker, type):
            functions = [cls.__dict__["__init__"] for cls in maker.__mro__ if _has_init(cls)]
        for function in functions:
            parameters = inspect.signature(function).parameters.values()
            for p in parameters:
                if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD) and p.name != "self":
                    found.setdefault(p.name, _resolved(function, p))
            if not any(p.kind is p.VAR_KEYWORD for p in parameters):
                break
    return found


def _has_init(cls: type) -> bool:
    return "__init__" in cls.__dict__ and cls is not object


def _resolved(function: Callable[..., Any], parameter: inspect.Parameter) -> inspect.Parameter:
    """Returns the parameter with its annotation resolved to a type."""
    try:
        hint = typing.get_type_hints(function).get(parameter.name, Any)
    except NameError:  # a name that is imported only for type checkers
        hint = Any
    return parameter.replace(annotation=hint)


def check_arguments(
    what: str, known: Mapping[str, inspect.Parameter], given: Mapping[str, Any]
) -> None:
    """Checks names and types of arguments. Types that are not in `_KINDS` are not checked.

    Args:
        what: the owner of the arguments, for messages.
        known: its parameters by name.
        given: the arguments.

    Raises:
        UnknownArgumentError: for an unknown name. The message names the closest known ones.
        ConfigError: for a value of a wrong type. The message names the expected types.
    """
    for name in given:
        if name not in known:
            valid = f"it takes {', '.join(known)}" if known else "it takes no arguments"
            raise UnknownArgumentError(
                f"{what} got an unexpected keyword argument {name!r}: {valid}."
                + did_you_mean(name, known)
            )
    check_types(what, known, given)


def check_types(
    what: str, known: Mapping[str, inspect.Parameter], given: Mapping[str, Any]
) -> None:
    """Checks the types of the known arguments. Types that are not in `_KINDS` are not checked.

    Args:
        what: the owner of the arguments, for messages.
        known: its parameters by name.
        given: the arguments. Unknown names are ignored.

    Raises:
        ConfigError: for a value of another type, or a number that is not finite or above `LARGEST`.
    """
    for name, value in given.items():
        number = name in known and isinstance(value, numbers.Real)
        if number and not abs(own(value)) <= LARGEST:
            finite = isinstance(value, numbers.Integral) or math.isfinite(value)
            bound = f"at most {LARGEST:g}" if finite else "finite"
            shown = reprlib.repr(own(value))
            raise ConfigError(f"Argument {name!r} of {what} must be {bound}, got {shown}.")
        if name in known and not _fits(hint := known[name].annotation, value):
            secret = is_secret(name) and isinstance(value, str | int | bytes)
            shown = MASK if secret else f"{reprlib.repr(value):.80}"
            raise ConfigError(
                f"Argument {name!r} of {what} is {_written(hint)}; "
                f"got {shown} ({type(value).__name__})."
            )


def check_render_mode(mode: str | None, known: Iterable[str]) -> None:
    """Checks a render mode.

    Raises:
        UnknownArgumentError: for an unknown one. It is a TypeError because Stable-Baselines3's
            `make_vec_env` first requests images and omits the render mode after a TypeError.
    """
    if mode is None or mode in known:
        return
    message = f"render_mode must be None or one of {known}, got {mode!r}."
    if mode == PIXELS:
        message += " This environment has no pictures: its state is text. Use 'ansi'."
    raise UnknownArgumentError(message)


def metadata_of(*, pictures: bool) -> dict[str, Any]:
    """Returns the `metadata` of an environment, with or without pictures."""
    modes = ["ansi", "human", PIXELS] if pictures else ["ansi", "human"]
    return {"render_modes": modes, "render_fps": 4}


def check_limits(split: str, max_turns: int | None) -> None:
    """Checks the arguments that environments and games share.

    Raises:
        ConfigError: for an unknown split or a turn limit below 1.
    """
    if max_turns is not None and max_turns < 1:
        raise ConfigError(f"max_turns must be None or at least 1, got {max_turns}.")
    if split not in ("train", "test"):
        raise ConfigError(f"split must be 'train' or 'test', got {split!r}.")


def check_reset_options(options: Any, max_turns: int | None) -> dict[str, Any]:
    """Returns the options of `TextEnv.reset` or, without one, its default of `max_turns`.

    Raises:
        TypeError: if the options are no mapping.
        ValueError: for an unknown option, or a turn limit that is not possible.
    """
    options = {} if options is None else options
    if not isinstance(options, Mapping):
        example = '{"task": "train/0"}'
        raise TypeError(f"options must be a mapping, such as {example}, got {options!r:.80}.")
    for key in options:
        if key not in RESET_OPTIONS:
            known = f"The options are {RESET_OPTIONS}.{did_you_mean(str(key), RESET_OPTIONS)}"
            raise ValueError(f"Unknown reset option {key!r:.80}. {known}")
    options = own({"max_turns": max_turns, **options})
    limit = options["max_turns"]
    if limit is not None and (type(limit) is not int or limit < 1):
        raise ValueError(f"max_turns must be None or at least 1, as an int, got {limit!r:.80}.")
    return options


def _alternatives(hint: Any) -> tuple[Any, ...]:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return typing.get_args(hint)
    return (hint,)


def _fits(hint: Any, value: Any) -> bool:
    for kind in _alternatives(hint):
        if typing.get_origin(kind) is typing.Literal:
            if value in typing.get_args(kind):
                return True
            continue
        inner = typing.get_args(kind)
        kind = typing.get_origin(kind) or kind
        if kind not in _KINDS:
            return True  # not checked here
        if kind is tuple and inner[1:] == (...,) and isinstance(value, list | tuple):
            if all(_fits(inner[0], item) for item in value):
                return True
            continue
        if isinstance(value, bool) and kind is not bool:
            continue
        if isinstance(value, _KINDS[kind]):
            return True
    return False


def _name(kind: Any) -> str:
    inner = typing.get_args(kind)
    if typing.get_origin(kind) is tuple and inner[1:] == (...,):
        return f"a sequence of {_name(inner[0])}"
    return kind.__name__


def _written(hint: Any) -> str:
    names = []
    for kind in _alternatives(hint):
        if typing.get_origin(kind) is typing.Literal:
            names += map(repr, typing.get_args(kind))
        else:
            names.append("None" if kind is types.NoneType else _name(kind))
    return " or ".join(names)


class _Signature:
    def __get__(self, instance: object, owner: type) -> inspect.Signature:
        found = keyword_parameters(owner).values()
        return inspect.Signature(sorted(found, key=lambda p: (p.kind, p.default is not p.empty)))


FREE = frozenset(
    "split max_turns max_invalid invalid_penalty render_mode num_players game seat "
    "opponents".split()
)
"""Arguments that may differ between an environment and one that goes on from its snapshots."""


def _named(method: Callable[..., Any], args: Sequence[Any]) -> dict[str, Any]:
    """Returns positional arguments of a method by name."""
    _, *parameters = inspect.signature(method).parameters.values()
    kinds = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    return dict(zip([p.name for p in parameters if p.kind in kinds], args, strict=False))


def own(value: Any) -> Any:
    """Returns a value with the numbers of NumPy in it, also in lists and dictionaries, as Python's.

    States hold numbers of Python, since snapshots are JSON. A value that is nested too deeply stays
    as it is.
    """
    with contextlib.suppress(RecursionError):
        return _own(value)
    return value


def _own(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if type(value) in (list, tuple):
        found = list(map(_own, value))
        return value if all(map(operator.is_, found, value)) else type(value)(found)
    if type(value) is dict:
        found = {key: _own(item) for key, item in value.items()}
        return value if all(map(operator.is_, found.values(), value.values())) else found
    return value


def _is_plain(value: Any) -> bool:
    """Whether a value is a number, a truth value, a word or None."""
    word = isinstance(value, str) and value.isidentifier()
    return word or value is None or (type(value) in (bool, int, float) and value == value)


def takes_numbers(init: Callable[..., None]) -> Callable[..., None]:
    """Returns an `__init__` that receives numbers of NumPy as those of Python."""

    @functools.wraps(init)
    def converted(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *map(own, args), **own(kwargs))

    return converted


class OwnNumbers:
    """A base of classes whose constructors receive numbers of NumPy as those of Python.

    Their metaclass is `type`: type checkers and `inspect` see the arguments of constructors, and a
    subclass may have a metaclass, such as that of a protocol.
    """

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        if "__init__" in cls.__dict__:
            made: Any = cls
            made.__init__ = takes_numbers(made.__init__)


class CheckedArguments(OwnNumbers):
    """A base of classes whose arguments are checked when they are made.

    Attributes:
        _made_with: the arguments that decide the rules, as far as they are numbers or words. Others
            may be files, functions, secrets, or differ between machines.

    The signature of a subclass, as `help` and editors show it, has the parameters of its bases.
    """

    __signature__ = _Signature()
    _made_with: Mapping[str, Any] = {}

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Checks the types of all arguments, including those of subclasses."""
        known = keyword_parameters(cls)
        given = own(_named(cls.__init__, args) | kwargs if args else kwargs)
        check_types(cls.__name__, known, given)
        made = super().__new__(cls)
        values = {
            name: given.get(name, parameter.default)
            for name, parameter in known.items()
            if name not in FREE
        }
        made._made_with = {
            name: value
            for name, value in values.items()
            if _is_plain(value) and masked(value, name) != MASK
        }
        return made
