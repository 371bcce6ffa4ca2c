"""Calls of the environment under certification, with a time limit."""

from __future__ import annotations

import functools
import reprlib
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from agentgym.core import TextEnv
from agentgym.time_limits import BoundedCalls, CallTimeout

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
CALLS = ("reset", "step", "expert", "snapshot", "restore")
"""Methods of an environment that run its author's rules."""


class Calls:
    """Runs calls with a time limit. After one that took too long, all others fail at once.

    Args:
        seconds: the limit of a call.
    """

    def __init__(self, seconds: float):
        self._bounded = BoundedCalls(seconds)
        self._inside = False
        self._late: CallTimeout | None = None

    def limit(self, env: TextEnv) -> TextEnv:
        """Limits the methods of an environment, and returns it."""
        for name in CALLS:
            setattr(env, name, self.limited(getattr(env, name)))
        return env

    def limited(self, function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        """Returns a function with a time limit.

        Raises:
            CallTimeout: if it takes too long, and in every call after that. The message names the
                call that took too long.
        """

        @functools.wraps(function)
        def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
            if self._inside:  # one call of the environment makes another
                return function(*args, **kwargs)
            if self._late is not None:
                raise self._late
            self._inside = True
            try:
                return self._bounded(functools.partial(function, *args, **kwargs))
            except CallTimeout as error:
                given = [*map(reprlib.repr, args)]
                given += [f"{key}={reprlib.repr(value)}" for key, value in kwargs.items()]
                self._late = CallTimeout(f"{error}: {function.__name__}({', '.join(given)})")
                raise self._late from None
            finally:
                self._inside = False

        return call
