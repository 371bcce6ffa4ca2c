"""Wrappers in words: `ExtractAction:format=tags` puts that wrapper on an environment."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import gymnasium
from gymnasium.spaces import Text

from agentgym.errors import ConfigError, did_you_mean
from agentgym.utils.arguments import (
    check_arguments,
    keyword_parameters,
    parse_arguments,
    split_arguments,
)
from agentgym.utils.importing import user_line, user_module
from agentgym.wrappers.answer_format import AnswerFormat
from agentgym.wrappers.extract_action import ExtractAction

TextGym = gymnasium.Env[Any, Any]


def wrap_env(env: TextGym, specs: Sequence[str]) -> TextGym:
    """Puts wrappers on a text environment, the first one innermost.

    Args:
        env: the environment.
        specs: wrappers as "NAME" or "NAME:arg=value,...", where NAME is a wrapper of
            `agentgym.wrappers` or "module:Class". Values are read as `parse_arguments` does.

    Raises:
        ConfigError: for an unknown wrapper or argument, a value that the wrapper refuses, or a
            wrapper whose observations or actions are not texts.
    """
    for spec in specs:
        env = _wrapped(env, spec)
    return env


def answer_format(specs: Sequence[str]) -> AnswerFormat | None:
    """Returns the format of the answers that wrappers parse, or None without `ExtractAction`.

    Args:
        specs: wrappers, see `wrap_env`.
    """
    for spec in specs:
        if spec.partition(":")[0] == ExtractAction.__name__:  # wrappers of modules are not imported
            options = _parse(spec)[2]
            names = [each.name for each in fields(AnswerFormat)]
            return AnswerFormat(**{n: value for n, value in options.items() if n in names})
    return None


def _wrapped(env: TextGym, spec: str) -> TextGym:
    if not isinstance(spec, str):
        raise ConfigError(f"A wrapper is written NAME:arg=value,... Got {spec!r:.80}.")
    name, wrapper, options = _parse(spec)
    known = keyword_parameters(wrapper)
    first = next(iter(known), None)  # the environment itself
    known = {n: p for n, p in known.items() if n != first}
    check_arguments(f"Wrapper {name!r}", known, options)
    missing = [n for n, p in known.items() if p.default is inspect.Parameter.empty]
    if missing := [n for n in missing if n not in options]:
        raise ConfigError(f"Wrapper {name!r} needs {', '.join(missing)}: {name}:{missing[0]}=...")
    try:
        env = wrapper(env, **options)
    except ConfigError:
        raise
    except (ValueError, TypeError, AssertionError) as error:  # how a constructor refuses one
        raise ConfigError(f"Wrapper {name!r}: {error}") from error
    except Exception as error:
        if ":" not in name:  # a fault of AgentGym
            raise
        raise ConfigError(
            f"Wrapper {name!r} fails:{user_line(error)} {type(error).__name__}: {error}"
        ) from error
    for kind, space in (("observations", env.observation_space), ("actions", env.action_space)):
        if not isinstance(space, Text):
            raise ConfigError(
                f"Wrapper {name!r} makes {kind} that are not texts ({space}): agents read and "
                "write text."
            )
    return env


def _parse(spec: str) -> tuple[str, Any, dict[str, Any]]:
    """Returns name, class and arguments."""
    import agentgym.wrappers as wrappers

    names = [n for n in wrappers.__all__ if n not in ("TextWrapper", "Transition")]
    name, _, rest = spec.partition(":")
    following = rest.partition(":")
    if name in names:
        wrapper = getattr(wrappers, name)
    elif following[0].isidentifier():
        wrapper = _imported(name, following[0])
        name, rest = f"{name}:{following[0]}", following[2]
    else:
        raise ConfigError(
            f"Unknown wrapper {name!r}.{did_you_mean(name, names)} Known: {', '.join(names)}, "
            "and module:Class."
        )
    return name, wrapper, parse_arguments(split_arguments(rest))


def _imported(module: str, name: str) -> Any:
    home = user_module(module, f"for the wrapper {name!r}")
    found = getattr(home, name, None)
    if not (isinstance(found, type) and issubclass(found, gymnasium.Wrapper)):
        known = [each for each, value in vars(home).items() if isinstance(value, type)]
        raise ConfigError(f"{module}:{name} is not a gymnasium.Wrapper.{did_you_mean(name, known)}")
    return found
