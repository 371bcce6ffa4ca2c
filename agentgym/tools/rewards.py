"""`reward`: makes a named reward term of a Python function."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, overload


class Reward:
    """A term of the reward at the end of an episode.

    Attributes:
        function: state -> value.
        name: name of the term in `info["reward_terms"]`.
        weight: factor of the value.
    """

    def __init__(
        self,
        function: Callable[[dict[str, Any]], float],
        *,
        name: str | None = None,
        weight: float = 1.0,
    ):
        self.function, self.weight = function, float(weight)
        self.name = name or function.__name__
        self.__doc__, self.__module__ = function.__doc__, function.__module__

    def __reduce__(self) -> str:
        return self.function.__qualname__  # pickled and copied by reference, like a function

    def __call__(self, state: dict[str, Any]) -> float:
        """Returns the value of a state times the weight.

        Raises:
            ValueError: if the value is not finite.
        """
        value = self.weight * float(self.function(state))
        if not math.isfinite(value):
            raise ValueError(f"The reward {self.name!r} must be finite, got {value}.")
        return value


@overload
def reward(function: Callable[[dict[str, Any]], float], /) -> Reward: ...


@overload
def reward(
    *, name: str | None = None, weight: float = 1.0
) -> Callable[[Callable[[dict[str, Any]], float]], Reward]: ...


def reward(
    function: Callable[[dict[str, Any]], float] | None = None,
    /,
    *,
    name: str | None = None,
    weight: float = 1.0,
) -> Any:
    """Makes a `Reward` of a function of the state. Usable as `@reward` and `@reward(weight=0.1)`.

    Args:
        function: the function.
        name: name of the term. Default: the name of the function.
        weight: factor of the value.
    """
    if function is None:
        return lambda decorated: Reward(decorated, name=name, weight=weight)
    return Reward(function)
