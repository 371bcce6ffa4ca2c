"""Making the environment of a certificate from an id or a class."""

from __future__ import annotations

import re
from typing import Any

from agentgym.core import TextEnv
from agentgym.errors import ConfigError, did_you_mean
from agentgym.multiagent.game import TextGame
from agentgym.registration.entry import import_module_of
from agentgym.registration.making import author_class, full_id, make_env
from agentgym.registration.registry import REGISTRY
from agentgym.utils.importing import user_module

CLASS = re.compile(r"([\w.]+):([A-Za-z_]\w*)")
"""A class that need not be registered: "module:Class"."""


def make_text_env(name: str, **kwargs: Any) -> TextEnv:
    """Makes an environment, without wrappers.

    Args:
        name: an id, "module:id", or "module:Class" of an environment that is not registered.
        kwargs: its arguments.

    Raises:
        ConfigError: if there is no such environment, or it is no `TextEnv`.
    """
    if match := CLASS.fullmatch(name):
        env = _class(*match.groups())(**kwargs)
    else:
        env = make_env(name, **kwargs).unwrapped
    if not isinstance(env, TextEnv):
        raise ConfigError(
            f"Expected an agentgym.TextEnv or the id of a game, got {type(env).__name__} from "
            f"{name!r}: other environments have no snapshots, tasks or expert to check."
        )
    return env


def check_name(name: str) -> None:
    """Checks that there is an environment of a name, without making it.

    Raises:
        ConfigError: if there is none.
    """
    if match := CLASS.fullmatch(name):
        _class(*match.groups())
    else:
        import_module_of(full_id(name))


def _class(module: str, name: str) -> Any:
    home = user_module(module, f"for the environment {name!r}")
    found = getattr(home, name, None)
    if isinstance(found, type) and issubclass(found, TextGame):
        raise ConfigError(
            f"{name} is a game. Register it with agentgym.register_game and name its id."
        )
    if not callable(found):
        known = [each for each, value in vars(home).items() if isinstance(value, type)]
        hint = did_you_mean(name, known)
        raise ConfigError(f"The module {module!r} has no environment {name!r}.{hint}")
    return found


def author_of(name: str, env: TextEnv) -> type[TextEnv] | type[TextGame]:
    """Returns the class that an author wrote: that of the game for a seat of a game."""
    entry = None if CLASS.fullmatch(name) else REGISTRY.get(full_id(name))
    return type(env) if entry is None else author_class(entry)
