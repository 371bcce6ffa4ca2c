"""Goals that can be set: the protocol of environments whose episodes can be relabelled.

"Hindsight Experience Replay" (Andrychowicz et al., arXiv 1707.01495).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class GoalConditioned(Protocol):
    """Protocol of an environment whose goal can be set.

    The goal must be part of the observations. It may affect only observations, rewards and episode
    ends: with a goal set, an episode must equal that of a task with this goal, the same initial
    state and the same seed. Environments in which chance decides which goal is achieved should not
    implement it, because relabelling then rewards luck as if it were skill.
    """

    def achieved(self) -> Any:
        """Returns the goal that the current state fulfils, in the form of a task's goal.

        Returns None if there is no useful goal, for example if it was fulfilled from the start.
        """
        ...

    def pursue(self, goal: Any) -> tuple[str, dict[str, Any]]:
        """Sets the goal of the episode that was just reset, and returns observation and info."""
        ...


@contextmanager
def towards(goal: Any, env: Any) -> Iterator[None]:
    """Sets the goal in every reset inside the context, so that wrappers see it too.

    Args:
        goal: a goal that `achieved` has returned.
        env: the unwrapped environment.
    """
    reset = env.reset

    def reset_and_pursue(**kwargs: Any) -> tuple[str, dict[str, Any]]:
        reset(**kwargs)
        return env.pursue(goal)

    env.reset = reset_and_pursue
    try:
        yield
    finally:
        del env.reset
