"""Hindsight relabelling: an episode is repeated with the goal that it achieved.

"Hindsight Experience Replay" (Andrychowicz et al., arXiv 1707.01495), for environments whose goal
can be set. The episode is *played* again with the same actions, so that texts, rewards and episode
ends come from the environment itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol, runtime_checkable

import gymnasium

from agentgym.trainers.rollout.context import Context
from agentgym.trainers.rollout.episode import EpisodeSpec, Play, Room, samples_of
from agentgym.trainers.trajectory import Trajectory


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


class _Again(Play):
    """An episode with given actions."""

    def __init__(self, episode: EpisodeSpec, env: gymnasium.Env[Any, Any]):
        super().__init__(0, episode, 0, env)

    def replay(self, context: Context, room: Room) -> _Again:
        """Plays the given actions until they are used up or the episode ends."""
        self.start()
        self.read(context, room)
        while not self.over and (sample := self.settled) is not None:
            self.record(sample)
            self.step()
            self.read(context, room)
        self.truncated = not self.terminated
        return self


@contextmanager
def _towards(goal: Any, env: Any) -> Iterator[None]:
    """Sets the goal in every reset inside the context, so that wrappers see it too."""
    reset = env.reset

    def reset_and_pursue(**kwargs: Any) -> tuple[str, dict[str, Any]]:
        reset(**kwargs)
        return env.pursue(goal)

    env.reset = reset_and_pursue
    try:
        yield
    finally:
        del env.reset


def in_hindsight(
    trajectory: Trajectory, env: gymnasium.Env[Any, Any], context: Context, room: Room
) -> Trajectory | None:
    """Returns a trajectory relabelled with the goal that its final state achieves.

    Args:
        trajectory: an episode that did not succeed.
        env: its environment.
        context: prompt builder.
        room: maps admissible actions to the number of tokens kept free for an action.

    Returns:
        The relabelled trajectory, which ends when the goal is first achieved. None if the goal of
        the environment cannot be set or no useful goal was achieved.
    """
    goal_env = env.unwrapped
    if not isinstance(goal_env, GoalConditioned):
        return None
    actions = samples_of(trajectory, len(trajectory.turns))
    episode = EpisodeSpec(trajectory.task, trajectory.seed, (0,), actions)
    _Again(episode, env).replay(context, room)
    goal = goal_env.achieved()
    if goal is None:
        return None
    with _towards(goal, goal_env):
        return _Again(episode, env).replay(context, room).trajectory()
