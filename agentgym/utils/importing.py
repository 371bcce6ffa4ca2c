"""Modules and functions that a user names, imported with errors that say what to mend."""

from __future__ import annotations

import importlib
import re
import traceback
from collections.abc import Callable
from types import ModuleType
from typing import Any

from agentgym.errors import AgentGymError, ConfigError, did_you_mean, module_hint

LOADERS = re.compile(r"importlib|(gymnasium.envs.registration|agentgym.utils.arguments)\.py$")
"""Files whose lines lead to a module or a constructor."""


def user_module(name: str, use: str) -> ModuleType:
    """Returns a module that a user names.

    Args:
        name: the name of the module.
        use: what it is for, such as "for the wrapper 'Mine'".

    Raises:
        ConfigError: if there is none, or it raises an error when it is imported.
    """
    try:
        if name and not name.startswith("."):  # no relative name, and no path
            return importlib.import_module(name)
    except AgentGymError:  # it says itself what is wrong
        raise
    except (Exception, SystemExit) as error:  # a script that runs when it is imported may end so
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is None or not f"{name}.".startswith(f"{missing}."):
            raise ConfigError(
                f"The module {name!r} {use} fails when it is imported:{user_line(error)} "
                f"{type(error).__name__}: {error}"
            ) from error
    raise ConfigError(f"There is no module {name!r} {use}.{module_hint(name)}") from None


def user_line(error: BaseException) -> str:
    """Returns the first line of a user's code that led to an error, "" if there is none.

    Args:
        error: the error, which the caller's own line led to.
    """
    frames = traceback.extract_tb(error.__traceback__)[1:]
    if error.__cause__ is not None:  # Gymnasium raises some errors of constructors anew
        frames += traceback.extract_tb(error.__cause__.__traceback__)
    own = [frame for frame in frames if not LOADERS.search(frame.filename)]
    return f" {own[0].filename}, line {own[0].lineno}:" if own else ""


def imported(name: str, option: str) -> Callable[..., Any]:
    """Returns the function "module:function", the value of an option.

    Raises:
        ConfigError: if there is none.
    """
    module, _, function = name.partition(":")
    use = f"{option} must name a module:function, got {name!r}"
    try:
        home = user_module(module, "for it")
    except ConfigError as error:
        raise ConfigError(f"{use}: {error}") from error
    found = getattr(home, function, None)
    if found is None:
        known = [each for each, value in vars(home).items() if callable(value)]
        raise ConfigError(
            f"{use}: the module has no function {function!r}.{did_you_mean(function, known)}"
        )
    if not callable(found):
        raise ConfigError(f"{use}, a {type(found).__name__}.")
    return found
