"""Hindsight relabelling: an episode is repeated with the goal that it achieved.

"Hindsight Experience Replay" (Andrychowicz et al., arXiv 1707.01495), for environments whose goal
can be set (`agentgym.goals`). The episode is *played* again with the same actions, so that texts,
rewards and episode ends come from the environment itself. `agentgym.evaluation.repair` does the
same for recorded episodes, without tokens.
"""

from __future__ import annotations

from typing import Any

import gymnasium

from agentgym.goals import GoalConditioned, towards
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.rollout.action_room import Room
from agentgym.trainers.rollout.branches import samples_of
from agentgym.trainers.rollout.context import Context
from agentgym.trainers.rollout.episode import EpisodeSpec, Play


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


def in_hindsight(
    trajectory: Trajectory,
    env: gymnasium.Env[Any, Any],
    context: Context,
    room: Room,
    max_turns: int | None = None,
) -> Trajectory | None:
    """Returns a trajectory relabelled with the goal that its final state achieves.

    Args:
        trajectory: an episode that did not succeed.
        env: its environment.
        context: prompt builder.
        room: maps admissible actions to the number of tokens kept free for an action.
        max_turns: turn limit of the episode. None: that of the environment.

    Returns:
        The relabelled trajectory, which ends when the goal is first achieved. None if the goal of
        the environment cannot be set or no useful goal was achieved.
    """
    goal_env = env.unwrapped
    if not isinstance(goal_env, GoalConditioned):
        return None
    actions = samples_of(trajectory, len(trajectory.turns))
    episode = EpisodeSpec(trajectory.task, trajectory.seed, (0,), actions, max_turns)
    _Again(episode, env).replay(context, room)
    goal = goal_env.achieved()
    if goal is None:
        return None
    with towards(goal, goal_env):
        return _Again(episode, env).replay(context, room).trajectory()
