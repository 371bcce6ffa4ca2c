"""Hindsight: an episode again, as if what it reached had been asked for.

"Hindsight RecipeHooks Replay" (Andrychowicz et al., arXiv 1707.01495), for environments whose goal
can be set. The episode is *played* again with its own actions, so texts, rewards and endings are
the environment's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol, runtime_checkable

import gymnasium

from agentgym.trainers.rollout.collector import EpisodeSpec, Play, Room, samples_of
from agentgym.trainers.rollout.context import Context
from agentgym.trainers.trajectory import Trajectory


@runtime_checkable
class GoalConditioned(Protocol):
    """What an environment offers if its goal can be set.

    The goal must stand in what is read, and the rules must not depend on it but for observation,
    reward and end: with a goal set, an episode is the one that a task with this goal, the same
    start and the same seed would be. Where chance decides what is reached, offer nothing: an
    outcome asked for after the fact makes luck look like skill.
    """

    def achieved(self) -> Any:
        """Returns the goal that the present state would fulfil, one that a task could have.

        None: nothing worth asking for, such as what was so at the start.
        """
        ...

    def pursue(self, goal: Any) -> tuple[str, dict[str, Any]]:
        """Makes this the goal of the episode that has just begun; returns observation and info."""
        ...


class _Again(Play):
    """An episode with its actions given."""

    def __init__(self, episode: EpisodeSpec, env: gymnasium.Env[Any, Any]):
        super().__init__(0, episode, 0, env)

    def replay(self, context: Context, room: Room) -> _Again:
        """Plays the given actions, or as many as the episode takes."""
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
    """Sets the goal of every episode that begins meanwhile, so that wrappers see it too."""
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
    """Returns a trajectory as it would have been had its end been the goal.

    Args:
        trajectory: an episode that did not succeed.
        env: where it was played.
        context: what the policy reads.
        room: tokens that it keeps free for an action, by what is admissible.

    Returns:
        The new trajectory, which ends where the goal is first reached; None if the environment has
        no goals to set or nothing worth asking for was reached.
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
