"""`WrittenGoal`: goals in place of the environment's, the judge's outcome, and the curriculum."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from agentgym import make_env
from agentgym.data.episode import RecordedEpisode
from agentgym.envs.numbers.number_line import NumberLine
from agentgym.errors import ConfigError, UnknownTaskError
from agentgym.judges import outcome_judge
from agentgym.time_step import TimeStep
from agentgym.wrappers import WrittenGoal
from agentgym.wrappers.written_goal import GoalTasks, clean_goal, parted

KWARGS: dict[str, Any] = {"size": 60, "max_turns": 4, "invalid_penalty": 0.25}
SEEN: list[RecordedEpisode] = []


def right(episode: RecordedEpisode) -> float | None:
    """The goal is to take as many steps to the right as it says."""
    SEEN.append(episode)
    wanted = int((episode.instructions or "").split()[-1])
    if wanted == 9:
        return None
    return float(sum(turn.action == "+" for turn in episode.turns) == wanted)


@pytest.fixture
def env() -> WrittenGoal:
    SEEN.clear()
    return WrittenGoal(make_env("NumberLine-v0", **KWARGS), f"{__name__}:right")


def play(env: WrittenGoal, task: str, *actions: str) -> list[Any]:
    observation, info = env.reset(seed=1, options={"task": task})
    steps: list[Any] = [(observation, 0.0, False, False, info)]
    for action in actions:
        steps.append(env.step(action))
    return steps


@pytest.mark.parametrize(("wanted", "solved"), [(2, True), (1, False), (9, False)])
def test_the_judge_decides_the_outcome_of_a_written_goal(
    env: WrittenGoal, wanted: int, solved: bool
):
    task = f"train/3 goal: Steps to the right: {wanted}"
    unread = pytest.warns(RuntimeWarning, match="test_written_goal:right cannot be read")
    with unread if wanted == 9 else nullcontext():
        steps = play(env, task, "+", "jump", "-", "+")
    assert all(step[0].startswith(f"Goal: Steps to the right: {wanted}\n") for step in steps)
    assert [step[1] for step in steps] == [0.0, 0.0, -0.25, 0.0, float(solved)]
    last = steps[-1][4]
    assert last["success"] is solved and last["progress"] == solved and last["task"] == task
    assert last["reward_terms"]["task"] == 0 and last["reward_terms"]["goal"] == solved
    assert not any(step[4]["success"] for step in steps[:-1])
    assert [step[4].get("unjudged", False) for step in steps] == [*[False] * 4, wanted == 9]
    assert ("unjudged" in env.restore(env.snapshot())[1]) == (wanted == 9)
    [episode] = SEEN  # judged once, with the observations of the environment
    assert [turn.action for turn in episode.turns] == ["+", "jump", "-", "+"]
    assert not any("Goal:" in turn.observation for turn in episode.turns)
    assert env.expert() is None


def test_a_readable_verdict_stands_for_that_of_the_environment():
    class Unjudged(NumberLine):
        def _info(self, step: TimeStep) -> dict[str, Any]:
            return super()._info(step) | {"unjudged": True}

    env = WrittenGoal(Unjudged(**KWARGS), f"{__name__}:right")
    assert "unjudged" in env.reset(seed=1, options={"task": "train/3"})[1]
    assert "unjudged" not in play(env, "train/3 goal: Steps to the right: 1", *"+---")[-1][4]


def test_own_tasks_are_those_of_the_environment(env: WrittenGoal):
    plain = make_env("NumberLine-v0", **KWARGS)
    plain.reset(seed=1, options={"task": "train/3"})
    env.reset(seed=1, options={"task": "train/3"})
    assert env.expert() == plain.get_wrapper_attr("expert")()
    for action in ("+", "jump"):
        one, other = env.step(action), plain.step(action)
        assert one[:4] == other[:4]
        assert one[4]["reward_terms"] == {**other[4]["reward_terms"], "goal": 0.0}
    assert not SEEN


def test_a_copy_goes_on_with_the_goal(env: WrittenGoal):
    play(env, "train/3 goal: Steps to the right: 2", "+", "+")
    other = WrittenGoal(make_env("NumberLine-v0", **KWARGS), f"{__name__}:right")
    observation, _ = other.restore(env.snapshot())
    assert observation.startswith("Goal: Steps to the right: 2\n")
    for each in (env, other):
        each.step("-")
        assert each.step("-")[4]["success"]
    assert len(SEEN) == 2 and SEEN[0] == SEEN[1]


@pytest.mark.parametrize(
    "task", ["test/3 goal: win", "train/3 goal: ", "train/3 goal: a\nb", "train/-1 goal: win"]
)
def test_other_tasks_are_refused(env: WrittenGoal, task: str):
    assert task not in env.tasks
    with pytest.raises(UnknownTaskError):
        env.reset(options={"task": task})


def test_the_tasks_are_those_of_the_environment_otherwise(env: WrittenGoal):
    own = make_env("NumberLine-v0", **KWARGS).get_wrapper_attr("tasks")
    assert len(env.tasks.train) == len(own.train) and env.tasks.test == own.test
    assert [*env.tasks.train[2:5]] == [*own.train[2:5]]


def test_what_is_not_a_judge_of_outcomes_is_refused(tmp_path: Path):
    env = make_env("NumberLine-v0", **KWARGS)
    rubric = tmp_path / "rubric.md"
    rubric.write_text("- task: Is it done?\noutcome: shown\n")
    with pytest.raises(ConfigError, match="outcome: hidden"):
        WrittenGoal(env, f"rubric={rubric}:chat:m@http://localhost:1/v1")
    with pytest.raises(ConfigError, match="Unknown judge"):
        WrittenGoal(env, "someone")
    outcome_judge.cache_clear()


def test_the_goal_is_part_of_the_state_key(env: WrittenGoal):
    keys = {
        play(env, task)[0][4]["state_key"]
        for task in ("train/3", "train/3 goal: Be 1", "train/3 goal: Be 2")
    }
    assert len(keys) == 3


@pytest.mark.parametrize("text", ["a\ud800b", "a\x00 \x1b[31mb", "a\r\nb", "a" * 600, "a goal: b"])
def test_a_goal_of_any_text_is_one_line_that_can_be_stored(env: WrittenGoal, text: str):
    goal = clean_goal(text)
    assert goal.encode() and goal.isprintable() and clean_goal(goal) == goal
    task = f"train/3 goal: {goal}"
    assert (
        parted(task, env.env.get_wrapper_attr("tasks")) == ("train/3", goal) and task in env.tasks
    )
    assert f"train/3 goal: {text}" in env.tasks or goal != text


def test_a_name_may_hold_the_mark_of_a_goal():
    tasks = GoalTasks(["Find the goal: a key", "Find it"])
    assert "Find the goal: a key" in tasks and "Find it goal: now" in tasks
    assert "Find the goal: a lock" not in tasks
    assert parted("Find the goal: a key", tasks.own) == ("Find the goal: a key", "")
