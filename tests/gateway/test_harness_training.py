"""Training with a program of the user in place of the trainer's own loop."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentgym.envs.numbers.number_line import NumberLine
from agentgym.errors import ConfigError
from agentgym.tasks import task_number
from agentgym.time_step import TimeStep
from agentgym.trainers import recipes, train
from agentgym.trainers.gateway.played import Played
from agentgym.trainers.gateway.task import Task
from agentgym.trainers.gateway.task_file import TaskFile
from agentgym.trainers.run.checks import check_recipe
from tests.gateway import episodes as programs

SMALL = {
    "env_id": "NumberLine-v0",
    "env_kwargs": {"size": 5, "max_turns": 4},
    "iterations": 2,
    "episodes_per_iteration": 4,
    "num_envs": 4,
    "eval_episodes": 2,
    "max_new_tokens": 2,
    "epochs": 1,
    "threads": 1,
    "seed": 3,
}


def rows(folder: Path) -> list[dict[str, Any]]:
    """The metrics of a run, without times and counts of the program."""
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [
        {
            name: value
            for name, value in json.loads(line).items()
            if not name.startswith(("time/", "rollout/program_"))
        }
        for line in lines
    ]


@pytest.mark.parametrize(("recipe", "more"), [("turn", {}), ("grpo", {"group_size": 2})])
def test_a_program_trains_and_evaluates_as_the_loop_of_the_trainer(
    recipe: str, more: dict[str, Any], tmp_path: Path
):
    train(recipe, **SMALL, **more, run_dir=str(tmp_path / "own"))
    train(recipe, **SMALL, **more, harness=programs.chat, run_dir=str(tmp_path / "program"))
    own, found = rows(tmp_path / "own"), rows(tmp_path / "program")
    assert len(own) == len(found) > 2
    for one, other in zip(own, found, strict=True):
        learned = {n: v for n, v in one.items() if n.startswith(("losses/", "eval/", "credit/"))}
        assert {name: other[name] for name in learned} == pytest.approx(learned, rel=1e-4, abs=1e-5)


class Unjudged(NumberLine):
    """A judge's verdict on the tasks with an even number cannot be read."""

    def _info(self, step: TimeStep) -> dict[str, Any]:
        unread = self._turn == 2 and task_number(self.task) % 2 == 0
        return super()._info(step) | ({"unjudged": True} if unread else {})


def test_unreadable_verdicts_are_counted_and_named(tmp_path: Path):
    given = {name: value for name, value in SMALL.items() if not name.startswith("env_")}
    run = {"run_dir": str(tmp_path / "run"), "iterations": 1, "group_size": 2}
    env = lambda: Unjudged(size=40, max_turns=2)  # noqa: E731
    reports = train("rloo", env=env, harness=programs.chat, **given | run)
    for report in reports:
        kinds = {each.task: each.failure for each in report.episodes}
        assert {kind == "unjudged" for kind in kinds.values()} == {True, False}
        assert all((kinds[task] == "unjudged") == (task_number(task) % 2 == 0) for task in kinds)
    [counted] = [row for row in rows(tmp_path / "run") if "rollout/unjudged" in row]
    assert counted["rollout/unjudged"] == 2


def test_a_file_of_tasks_needs_no_environment(tmp_path: Path):
    file = tmp_path / "tasks.jsonl"
    rows = [{"prompt": f"Write {word}.", "_answer": word} for word in "one two three".split()]
    file.write_text("\n".join(json.dumps(row) for row in rows))
    seen = []

    def score(played: Played) -> float:
        seen.append(played)
        return float(len(played.replies[0]))

    def program(task: Task) -> None:
        assert task.data == {"prompt": task.observation}
        programs.ask(task, [{"role": "user", "content": task.observation}])

    given = {name: value for name, value in SMALL.items() if not name.startswith("env_")}
    run = {"tasks": str(file), "iterations": 1, "group_size": 4, "run_dir": str(tmp_path / "run")}
    reports = train("rloo", harness=program, harness_score=score, **given | run)
    assert len(reports) == 2 and reports[0].env == "TaskFile"
    assert {played.data["_answer"] for played in seen} <= {"one", "two", "three"}


def test_only_line_feeds_end_the_lines_of_a_file(tmp_path: Path):
    """U+2028 and others are ordinary characters in a text of JSON."""
    file = tmp_path / "tasks.jsonl"
    prompts = [f"{end}x" for end in "\u2028\u0085\u2029"]
    rows = [json.dumps({"prompt": prompt}, ensure_ascii=False) for prompt in prompts]
    file.write_bytes("\r\n".join(rows).encode())
    assert [row["prompt"] for row in TaskFile(file).rows.values()] == prompts


@pytest.mark.parametrize(
    "lines",
    [
        "",
        "{}",
        "[]\n{}",
        '{"split": []}\n{}',
        '{"a": 1\n{}',
        '{"name": "x"}\n{"name": "x"}',
        '{"split": 3}\n{}',
    ],
)
def test_a_file_that_holds_no_tasks_is_refused(lines: str, tmp_path: Path):
    file = tmp_path / "tasks.jsonl"
    file.write_text(lines)
    with pytest.raises(ConfigError, match=r"tasks\.jsonl"):
        TaskFile(file)


REPLAYING = ("samples_of(", ".branch(", "hooks.branching import", "hooks.trees import")
"""Marks of modules that play episodes again from recorded actions."""


def test_recipes_that_replay_actions_refuse_a_program_before_anything_is_loaded():
    refused = set()
    for name in recipes.names():
        recipe = recipes.load(name)
        config = recipe.Config()
        algorithm = recipe.build(config)
        config.program.harness = "true"
        if algorithm.replays:
            refused.add(name)
            with pytest.raises(ConfigError, match="such as grpo"):
                check_recipe(name, config, algorithm)
    folder = Path(recipes.__file__).parent
    texts = {name: (folder / f"{name}.py").read_text("utf-8") for name in recipes.names()}
    marked = {name for name, text in texts.items() if any(mark in text for mark in REPLAYING)}
    assert refused == marked - BY_SETTING


BY_SETTING = {"chunk", "magrpo", "optima"}
"""Recipes of which one setting replays actions, not the default one."""
