"""The curriculum of written goals: from which tasks, which of them are played, and resumed runs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from agentgym.data.episode import RecordedEpisode
from agentgym.trainers import Callback
from agentgym.trainers.data.trajectory import Trajectory
from agentgym.trainers.hooks.run import Run
from agentgym.trainers.rollout.curriculum import make_curriculum
from agentgym.trainers.rollout.learning_progress import Related
from agentgym.trainers.rollout.written_tasks import Written, read_goals
from agentgym.wrappers.written_goal import GOAL, GoalTasks

from ...helpers.chat_server import Messages, chat_server
from ..recipes.test_recipes import train, whole_and_resumed
from .test_curriculum import TASKS, played

OPEN = GoalTasks(TASKS)


def moves_right(episode: RecordedEpisode) -> float:
    return float(episode.turns[-1].action == "+")


def describe(task: str) -> str:
    name, _, goal = task.partition(GOAL)
    return f"Goal: {goal} at {name}" if goal else f"door {name}"


def write(messages: Messages) -> str:
    """Writes goals at every beginning, and one at a beginning that was not shown."""
    shown = re.findall(r"(?m)^(\d+)\. ", messages[-1]["content"])
    lines = [f"{number}: Open door {len(messages[-1]['content'])}.{number}" for number in shown]
    return "\n".join(["Some goals:", *lines, "99: Open another door."])


def test_goals_are_written_from_failed_tasks_and_are_the_seed_of_further_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path))
    with chat_server(write) as server:
        kind = f"chat:m@{server.url}"
        assert type(make_curriculum(kind, TASKS, None, describe)) is Related
        curriculum = make_curriculum(kind, OPEN, None, describe)
        assert type(curriculum) is Written
        assert curriculum.draw(4, np.random.default_rng(0)) and not server.requests
        curriculum.observe(played({TASKS[0]: 0.0, TASKS[1]: 1.0, TASKS[2]: 0.25}))
        drawn = [task for task, _ in curriculum.draw(8, np.random.default_rng(1))]
        written = [task for task in drawn if GOAL in task]
        assert {task.partition(GOAL)[0] for task in written} == {TASKS[0], TASKS[2]}
        assert len(set(drawn)) == 8 and drawn[: len(written)] == written
        assert all(task in OPEN for task in drawn)
        again = make_curriculum(kind, OPEN, None, describe)
        again.load_state_dict(curriculum.state_dict())
        assert [task for task, _ in again.draw(8, np.random.default_rng(1))] == drawn
        assert len(server.requests) == 1
        curriculum.observe(played({TASKS[0]: 1.0, TASKS[2]: 1.0, written[0]: 0.0}))
        curriculum.draw(8, np.random.default_rng(2))
        asked = server.requests[-1][-1]["content"]
        assert asked == f"1. {written[0]}\n\nWrite 8 goals."


@pytest.mark.parametrize(("within", "number"), [((0.05, 0.75), 1), ((0.9, 1.0), 0)])
def test_goals_outside_the_filter_are_not_played(within: tuple[float, float], number: int):
    curriculum = Written(lambda asked: ["1: Open it."] * len(asked), describe, OPEN)
    curriculum.within = within
    curriculum.observe(played({TASKS[0]: 0.25}))
    drawn = [task for task, _ in curriculum.draw(8, np.random.default_rng(0))]
    assert sum(GOAL in task for task in drawn) == number and len(drawn) == 8


@pytest.mark.parametrize(
    ("reply", "goals"),
    [
        ("1: Win.\n2: Open   the door.", ["a goal: Win.", "b goal: Open the door."]),
        ("<think>1: no</think>\n- **2**: Win. ", ["b goal: Win."]),
        ("2) Buy a red shirt.\n3: Buy it.\n0: Buy it.", ["b goal: Buy a red shirt."]),
        ("Here are 2 goals:\nWin the game\n1:\n2: **", []),
        ("", []),
    ],
)
def test_goals_are_read_line_by_line(reply: str, goals: list[str]):
    found = read_goals(reply, ["a", "b"])
    assert found == goals and all(task in GoalTasks(["a", "b"]) for task in found)


class Watched(Callback):
    """Keeps the tasks that are played."""

    def __init__(self, tasks: list[str]):
        self.tasks = tasks

    def on_rollout_end(self, trainer: Run, trajectories: Sequence[Trajectory]) -> None:
        self.tasks += [each.task for each in trajectories]


@pytest.mark.slow
def test_a_run_learns_from_written_goals_and_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))
    tasks: list[str] = []
    with chat_server(write) as server:
        run = partial(
            train, "grpo", wrap=(f"WrittenGoal:judge={__name__}:moves_right",), group_size=4,
            curriculum=f"chat:m@{server.url}", episodes_per_iteration=32, bc_demonstrations=0,
            eval_episodes=0,
        )  # fmt: skip
        whole, resumed = whole_and_resumed(tmp_path, run, 3, at=1)
        assert resumed == whole
        run(folder=tmp_path / "watched", iterations=3, callbacks=[Watched(tasks)])
    written = {task for task in tasks if GOAL in task}
    assert written and len({*tasks} - written) >= 4
