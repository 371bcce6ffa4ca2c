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
CALLS = ("reset", "step", "expert", "privileged_text", "snapshot", "restore")
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
        """Limits the methods of an environment and of its copies, and returns it."""
        own = type(env)
        names = {name: getattr(own, name) for name in ("__module__", "__qualname__", "__doc__")}
        methods = {name: self.limited(getattr(own, name)) for name in CALLS}
        env.__class__ = type(own.__name__, (own,), {**names, **methods})
        return env

    def limited(self, function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        """Returns a function with a time limit.

        Raises:
            CallTimeout: if it takes too long, and in every call after that. The message names the
                call that took too long.
            RuntimeError: if it ends the process.
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
                given = [reprlib.repr(each) for each in args if not isinstance(each, TextEnv)]
                given += [f"{key}={reprlib.repr(value)}" for key, value in kwargs.items()]
                self._late = CallTimeout(f"{error}: {function.__name__}({', '.join(given)})")
                raise self._late from None
            except SystemExit as error:  # of a library for the command line
                raise RuntimeError(f"the environment ends the process: {error!r}") from None
            finally:
                self._inside = False

        return call
