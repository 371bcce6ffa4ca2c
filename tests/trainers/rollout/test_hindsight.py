"""Hindsight: an episode towards another goal is what an environment with that goal would give."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from agentgym.envs.grid import frozen_lake
from agentgym.envs.lmrl import maze
from agentgym.envs.planning.env import PlanningEnv
from agentgym.goals import GoalConditioned
from agentgym.registration.ids import TABLE
from agentgym.registration.making import make_env
from agentgym.trainers import train
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.policy.policy import Policy
from agentgym.trainers.policy.sampling import Sample
from agentgym.trainers.policy.tiny import tiny_policy
from agentgym.trainers.policy_agent.agent import make_context
from agentgym.trainers.recipes import sac_glam
from agentgym.trainers.rollout.context import Context, ContextSettings
from agentgym.trainers.rollout.episode import EpisodeSpec, Play
from agentgym.trainers.rollout.hindsight import in_hindsight

# How the rules themselves would start a task with another goal, said without `pursue`.
BEGIN: dict[str, Callable[[Any, Any], Any]] = {
    "NumberLine": lambda s, goal: dataclasses.replace(
        s, target=goal, distance=abs(s.position - goal)
    ),
    "Maze": lambda s, goal: maze.State(
        s.grid, goal, s.position, maze.distances(s.grid, goal)[s.position]
    ),
    "FrozenLake": lambda s, goal: frozen_lake.State(
        tuple(
            "".join("G" if (r, c) == goal else x.replace("G", "F") for c, x in enumerate(row))
            for r, row in enumerate(s.lake)
        ),
        s.position,
        s.start,
    ),
    "PlanningEnv": lambda s, goal: dataclasses.replace(s, goal=goal, best=0.0),
}
CASES: dict[str, dict[str, Any]] = {
    "NumberLine-v0": {"size": 6, "max_turns": 4},
    "Maze-v0": {"max_turns": 12},
    "Maze-Random-v0": {"size": 3, "max_turns": 12, "describe": "goal", "reward": "scaled"},
    "FrozenLake-Dry-v0": {"size": 4, "moves_per_turn": 2, "max_turns": 8},
    "Blocksworld-v0": {"blocks": 3, "max_turns": 8},
    "Ferry-v0": {"cars": 2, "ports": 3, "max_turns": 10},
    "Gripper-v0": {"balls": 2, "rooms": 3, "max_turns": 10},
    "Logistics-v0": {"max_turns": 20},
}


@pytest.fixture(scope="module")
def policy() -> Policy:
    return tiny_policy("NumberLine-v0", size="nano")


@pytest.fixture(scope="module")
def context(policy: Policy) -> Context:
    return make_context(policy, ContextSettings("window", 1, instructions=False))


def play(
    env: gymnasium.Env[Any, Any], episode: EpisodeSpec, context: Context, policy: Policy
) -> Trajectory:
    """Plays at random: what is admissible, now and then two moves or nonsense."""
    again = Play(0, episode, 0, env)
    again.start()
    again.read(context, lambda _: 8)
    while not again.over:
        first, second = again.rng.choice(again.admissible, 2)
        text = str(again.rng.choice([first, first, first, f"{first} || {second}", "nonsense"]))
        tokens = np.array([*policy.encode(text), policy.end_token], np.int32)
        again.record(Sample(tokens, np.zeros(len(tokens), np.float32), None, text, True))
        again.step()
        again.read(context, lambda _: 8)
    return again.trajectory()


def achieved(env: gymnasium.Env[Any, Any], trajectory: Trajectory) -> Any:
    """Returns the goal that the end of an episode fulfils."""
    env.reset(seed=trajectory.seed, options={"task": trajectory.task})
    for turn in trajectory.turns:
        env.step(turn.action)
    goal_env: Any = env.unwrapped
    return goal_env.achieved()


def with_goal(env: Any, goal: Any) -> Any:
    """Makes the rules begin every task with this goal: `_start` looks at another state."""
    family = "PlanningEnv" if isinstance(env, PlanningEnv) else type(env).__name__
    usual = env._start
    arguments = (0.0,) if family == "Maze" else ()

    def start(task: str) -> Any:
        usual(task)
        env.state = BEGIN[family](env.state, goal)
        return env._look(*arguments)

    env._start = start
    return env


@pytest.mark.parametrize("id", CASES)
def test_what_is_relabelled_is_what_the_goal_would_have_given(
    id: str, context: Context, policy: Policy
):
    env = make_env(id, **CASES[id])
    found = 0
    for number in range(40):
        tasks = env.get_wrapper_attr("tasks").train
        task = tasks[number % min(20, len(tasks))]
        before = play(env, EpisodeSpec(task, number, (0, number)), context, policy)
        if before.success:
            continue
        goal = achieved(env, before)
        after = in_hindsight(before, env, context, lambda _: 8)
        if goal is None:
            assert after is None
            continue
        assert after is not None and after.success and after.terminated
        found += 1
        other = with_goal(make_env(id, **CASES[id]).unwrapped, goal)
        text, info = other.reset(seed=after.seed, options={"task": after.task})
        assert len(after.turns) <= len(before.turns)
        for turn, said in zip(after.turns, before.turns, strict=False):
            assert turn.action == said.action and turn.observation == text
            assert (turn.admissible, turn.state_key) == (info["admissible"], info["state_key"])
            text, reward, terminated, truncated, info = other.step(turn.action)
            assert (turn.reward, turn.reward_terms) == (reward, info["reward_terms"])
            assert (turn.valid, turn.progress) == (info["valid"], info["progress"])
            assert terminated == (turn is after.turns[-1]) and not truncated
        assert after.final_observation == text
        last = after.turns[-1]
        read = policy.decode(after.segments[last.segment].tokens[: last.start].tolist())
        assert last.observation in read
    assert found >= 5, found


@pytest.mark.slow
def test_every_environment_with_goals_is_tested():
    offering = set()
    for entry in TABLE:
        if not entry.multi_agent and not entry.extra:
            env = make_env(entry.name).unwrapped
            if isinstance(env, GoalConditioned):
                family = PlanningEnv if isinstance(env, PlanningEnv) else type(env)
                offering.add(family.__name__)
    assert offering == set(BEGIN)


@pytest.mark.parametrize("id", ["Maze-Partial-v0", "FrozenLake-v0", "Sokoban-v0", "Tyreworld-v0"])
def test_goals_that_are_not_told_or_reached_by_chance_are_not_asked_for(
    id: str, context: Context, policy: Policy
):
    env = make_env(id, max_turns=6)
    for number in range(5):
        task = env.get_wrapper_attr("tasks").train[number]
        before = play(env, EpisodeSpec(task, number, (number,)), context, policy)
        assert before.success or in_hindsight(before, env, context, lambda _: 8) is None


class Loud(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Shouts what is read."""

    def reset(self, **kwargs: Any) -> tuple[str, dict[str, Any]]:
        text, info = self.env.reset(**kwargs)
        return text.upper(), info

    def step(self, action: str) -> Any:
        text, *rest = self.env.step(action)
        return text.upper(), *rest


def test_wrappers_see_the_new_goal_and_the_old_one_comes_back(context: Context, policy: Policy):
    env = Loud(make_env("NumberLine-v0", size=6, max_turns=2))
    episode = next(
        EpisodeSpec(f"train/{i}", i, (1, i))
        for i in range(50)
        if achieved(env, play(env, EpisodeSpec(f"train/{i}", i, (1, i)), context, policy))
        is not None
    )
    before = play(env, episode, context, policy)
    after = in_hindsight(before, env, context, lambda _: 8)
    assert after is not None
    assert after.turns[0].observation.isupper()
    assert after.turns[0].observation != before.turns[0].observation
    text, _ = env.reset(seed=episode.seed, options={"task": episode.task})
    assert text == before.turns[0].observation


def test_what_is_repeated_has_the_turn_limit_of_its_iteration(tmp_path: Path, monkeypatch: Any):
    found: list[Trajectory | None] = []

    def recorded(*args: Any) -> Trajectory | None:
        found.append(in_hindsight(*args))
        return found[-1]

    monkeypatch.setattr(sac_glam, "in_hindsight", recorded)
    train(
        "sac_glam", env_id="NumberLine-v0", env_kwargs={"max_turns": 2}, horizons=(6,),
        model="nano", context="current", episodes_per_iteration=16, iterations=1, eval_episodes=0,
        bc_demonstrations=0, critic_steps=1, replayed=2, device="cpu", threads=1, quiet=True,
        log_with=(), run_dir=str(tmp_path),
    )  # fmt: skip
    assert 2 < max(len(each.turns) for each in found if each is not None) <= 6
