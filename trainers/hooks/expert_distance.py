"""`ExpertDistance`: the turns that the scripted expert needs from the states of an iteration."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np

from agentgym.errors import ConfigError
from agentgym.registration.making import env_name
from agentgym.registration.mixture import Mixture
from agentgym.snapshots import restore_snapshot, snapshot_of
from agentgym.time_limits import MANY_TURNS
from agentgym.trainers.credit.graph import Edges, Node, bounded
from agentgym.trainers.credit.scan import Float64
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.learn import Learn
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.hooks.base import RecipeHooks

if TYPE_CHECKING:
    from agentgym.trainers.hooks.run import Run

Group = tuple[str, str, int, str]
"""`Trajectory.group`."""


class ExpertTable:
    """The expert's distances of the states of an iteration, a `Distance` of `credit.graph`.

    Attributes:
        turns: the number of turns to a success by group and key of a state.
    """

    def __init__(self) -> None:
        self.turns: dict[tuple[Group, str], float] = {}

    def __repr__(self) -> str:
        return "ExpertTable()"

    def __call__(self, batch: Batch, edges: Edges) -> Float64:
        """Returns the distance of each node [S]: infinite ones are the farthest plus one."""
        groups = dict(
            zip(batch.groups.tolist(), (t.group for t in batch.trajectories), strict=True)
        )

        def distance(node: Node) -> float:
            if node.kind == "success":
                return 0.0
            return self.turns.get((groups[node.group], node.key), math.inf)

        return bounded(np.array([distance(node) for node in edges.nodes]), edges)


class ExpertDistance(RecipeHooks):
    """Plays the episodes of an iteration again, and from each new state on with the expert.

    The state is restored afterwards, so that the actions that follow find it. From every state, the
    expert has as many turns as an episode. If they do not lead to a success, the distance is
    infinite. Chance events are those of the episode, which the policy could not know.

    Args:
        run: the run, with environments that have an expert and snapshots.
        table: takes the distances.

    Raises:
        ConfigError: if an environment has no expert or no snapshots.
    """

    def __init__(self, run: Run, table: ExpertTable):
        super().__init__()
        self._run, self._env, self._table = run, run.pool.env(0), table
        seed = run.config.run.seed
        for env in self._env.envs.values() if isinstance(self._env, Mixture) else (self._env,):
            env.reset(seed=seed)
            _check(env)

    def on_rollout_end(
        self, fresh: list[Trajectory], iteration: int, rng: np.random.Generator
    ) -> Learn:
        """Measures the distances of the states of all episodes."""
        self.env_steps = 0
        self._table.turns.clear()
        for trajectory in fresh:
            self._measure(trajectory, self._run.turn_limit(trajectory.task, iteration))
        return Learn(fresh)

    def _measure(self, trajectory: Trajectory, limit: int | None) -> None:
        """Adds the distances of the states of an episode, also of the one in which it was cut.

        Args:
            trajectory: the episode.
            limit: its turn limit. None: that of the environment.
        """
        env, options = self._env, {"task": trajectory.task}
        env.reset(seed=trajectory.seed, options=options)
        limit = limit or getattr(env.unwrapped, "turn_limit", None)
        if limit is not None:
            env.reset(seed=trajectory.seed, options=options | {"max_turns": 2 * limit})
        for turn in trajectory.turns:
            self._ask((trajectory.group, turn.state_key), limit or MANY_TURNS)
            env.step(turn.action)
            self.env_steps += 1
        if not (trajectory.terminated or trajectory.success):
            self._ask((trajectory.group, trajectory.final_state_key), limit or MANY_TURNS)

    def _ask(self, place: tuple[Group, str], limit: int) -> None:
        """Adds the distance of the state of the environment, unless it is known."""
        if place not in self._table.turns:
            here = snapshot_of(self._env)
            self._table.turns[place] = self._to_success(limit)
            restore_snapshot(self._env, here)

    def _to_success(self, limit: int) -> float:
        """Returns the number of the expert's turns to a success, infinite if there is none."""
        for count in range(1, limit + 1):
            action = self._env.get_wrapper_attr("expert")()
            if action is None:
                break
            *_, terminated, truncated, info = self._env.step(action)
            self.env_steps += 1
            if terminated or truncated:
                return count if info.get("success", False) else math.inf
        return math.inf


def _check(env: gymnasium.Env[Any, Any]) -> None:
    """Raises ConfigError unless a started environment has an expert and snapshots."""
    try:
        snapshot_of(env)
        action = env.get_wrapper_attr("expert")()
    except AttributeError:
        action = None
    if action is None:
        raise ConfigError(
            f"distance = 'expert' plays on from states of an episode with a scripted expert, which "
            f"needs an expert and snapshots, and {env_name(env)} lacks one of them: set distance "
            "to 'graph'."
        )
