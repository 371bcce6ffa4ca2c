"""Distances of the expert: exact where it is optimal, and credit in groups without a success."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest

from agentgym.envs.numbers.number_line import NumberLine
from agentgym.errors import ConfigError
from agentgym.registration.mixture import Mixture
from agentgym.trainers.credit.graph import GraphGPO, edges_of, shortest_paths
from agentgym.trainers.data.batch import Batch
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.hooks.expert_distance import ExpertDistance, ExpertTable

from ...helpers.worlds import trajectory

TASK = "train/3"


def walk(env: NumberLine, moves: Sequence[str]) -> tuple[Trajectory, list[int]]:
    """An episode that is cut off after some moves, and the distance before each of them."""
    _, info = env.reset(seed=0, options={"task": TASK})
    keys, distances = [], []
    for move in moves:
        keys.append(info["state_key"])
        distances.append(abs(env.state.target - env.state.position))
        *_, info = env.step(move)
    zeros = [0.0] * len(keys)
    found = trajectory(
        [1] * len(keys), zeros, keys=keys, actions=moves, task=TASK, terminated=False,
        final_key=info["state_key"],
    )  # fmt: skip
    return found, distances


def hooks_of(
    env: gymnasium.Env[Any, Any], table: ExpertTable, limit: int | None = None
) -> ExpertDistance:
    run: Any = SimpleNamespace(
        turn_limit=lambda task, iteration: limit,
        pool=SimpleNamespace(env=lambda slot: env),
        config=SimpleNamespace(run=SimpleNamespace(seed=0)),
    )
    return ExpertDistance(run, table)


def away(env: NumberLine) -> str:
    """The move that leads away from the target at the start of the task."""
    env.reset(seed=0, options={"task": TASK})
    return "-" if env.expert() == "+" else "+"


def test_the_distance_is_the_number_of_turns_to_the_target():
    env = NumberLine(size=9, max_turns=30)
    there, back = away(env), "+-"[away(env) == "+"]
    walks = [walk(env, moves) for moves in ([there, back, there, there], [there, there])]
    table = ExpertTable()
    hooks = hooks_of(env, table)
    rng = np.random.default_rng(0)
    assert hooks.on_rollout_end([t for t, _ in walks], 0, rng).weights is None
    for each, distances in walks:
        found = [table.turns[each.group, turn.state_key] for turn in each.turns]
        assert found == distances
    played = hooks.env_steps
    assert played >= sum({d: d for _, found in walks for d in found}.values())
    hooks.on_rollout_end([walks[1][0]], 1, rng)  # other episodes, other states
    assert 0 < hooks.env_steps < played
    last = walks[1][0]
    keys = {*(turn.state_key for turn in last.turns), last.final_state_key}
    assert table.turns.keys() == {(last.group, key) for key in keys}


def test_without_a_success_the_better_turn_still_has_credit():
    env = NumberLine(size=9, max_turns=30)
    there = away(env)
    back = "+-"[there == "+"]
    batch = Batch.of([walk(env, [there, there])[0], walk(env, [there, back, there])[0]])
    edges = edges_of(batch)
    assert set(shortest_paths(batch, edges)) == {1.0}  # no path to a success
    assert not GraphGPO()(batch).advantages.any()
    table = ExpertTable()
    hooks_of(env, table).on_rollout_end(list(batch.trajectories), 0, np.random.default_rng(0))
    advantages = GraphGPO(distance=table)(batch).advantages
    assert advantages[3] > 0 > advantages[1]  # back, and farther away, in the same state


@pytest.mark.parametrize("limit", [3, 4, 5])
def test_the_expert_has_the_turns_of_an_episode_from_every_state(limit: int):
    env = NumberLine(size=9, max_turns=limit)
    each, distances = walk(env, [away(env)] * limit)
    table = ExpertTable()
    hooks_of(env, table).on_rollout_end([each], 0, np.random.default_rng(0))
    for turn, distance in zip(each.turns, distances, strict=True):
        expected = distance if distance <= limit else float("inf")
        assert table.turns[each.group, turn.state_key] == expected
    assert (each.group, each.final_state_key) in table.turns


@pytest.mark.parametrize("limit", [1, 2, 30])
def test_a_turn_limit_of_the_run_is_that_of_the_expert(limit: int):
    env = NumberLine(size=9, max_turns=9)
    there = away(env)
    table = ExpertTable()
    walked, distances = walk(env, [there])
    hooks_of(env, table, limit).on_rollout_end([walked], 0, np.random.default_rng(0))
    found = table.turns[walked.group, walked.turns[0].state_key]
    assert found == (distances[0] if distances[0] <= limit else np.inf)


def test_an_expert_that_goes_astray_is_stopped():
    env = Astray(size=9, max_turns=None)
    each, _ = walk(env, ["+"])
    table = ExpertTable()
    hooks_of(env, table).on_rollout_end([each], 0, np.random.default_rng(0))
    assert set(table.turns.values()) == {float("inf")}


class Astray(NumberLine):
    """A line whose expert never arrives."""

    def expert(self) -> str | None:
        """Returns the move away from the target."""
        return "-" if self.state.target > self.state.position else "+"


class Mute(NumberLine):
    """A line without an expert."""

    def expert(self) -> str | None:
        """Returns nothing."""
        return None


class Plain(gymnasium.Env[str, str]):
    """An environment without snapshots."""

    observation_space = action_space = gymnasium.spaces.Text(9)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        return "start", {}

    def expert(self) -> str:
        """Returns an action."""
        return "go"


@pytest.mark.parametrize("env", [Mute(), Plain(), Mixture({"a": NumberLine(), "b": Mute()})])
def test_an_environment_without_an_expert_or_snapshots_is_refused(env: gymnasium.Env[Any, Any]):
    with pytest.raises(ConfigError, match=r"needs an expert and snapshots.*distance to 'graph'"):
        hooks_of(env, ExpertTable())
