"""`LessonsAgent`: attempts become lessons, which are dropped by their use and success."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from agentgym.agents import View, make_agent
from agentgym.agents.scaffolds import LessonsAgent
from agentgym.agents.scaffolds.base import WRITER
from agentgym.agents.scaffolds.lessons import DESIGNS, Lesson
from agentgym.errors import ConfigError, DataError
from agentgym.evaluation import evaluate

KWARGS = {"size": 5, "max_turns": 6}
KIND = {design: next(iter(kinds)) for design, kinds in DESIGNS.items()}


class Learner:
    """Walks to the target only if a lesson says so, and writes the given replies."""

    name = "learner"

    def __init__(self, *replies: str):
        self.replies, self.questions, self.seen = list(replies), list[str](), list[str]()

    def act(self, views: Sequence[View]) -> list[str]:
        return [self._one(view) for view in views]

    def _one(self, view: View) -> str:
        if view.instructions == WRITER:
            self.questions.append(view.observation)
            return self.replies.pop(0) if self.replies else "Nothing."
        self.seen.append(view.instructions)
        if "Walk to the target." not in view.instructions.partition("Lessons")[2]:
            return "?"
        words = view.observation.replace(".", "").split()
        return "+" if int(words[-1]) > int(words[-4]) else "-"


def successes(agent: LessonsAgent, tasks: int, **options: object) -> list[bool]:
    report = evaluate("NumberLine-v0", agent, tasks=tasks, num_envs=1, env_kwargs=KWARGS | options)
    return [episode.success for episode in report.episodes]


@pytest.mark.parametrize("design", DESIGNS)
def test_a_failed_attempt_becomes_a_lesson_for_the_next_ones(design: str, tmp_path: Path):
    kind, file = KIND[design], tmp_path / "lessons.json"
    reply = f"- remember: {kind}: Walk to the target.\nremember: other: No.\nforget 7\nDone."
    model = Learner(reply)
    agent = LessonsAgent(model, design=design, data=str(file))
    assert successes(agent, 6) == [False, True, True, True, True, True]
    assert len(model.questions) == 5  # the last attempt waits for a next one
    first, second = model.questions[:2]
    assert "The attempt failed" in first and "> ?" in first and "(none)" in first
    assert all(f"- {name}: " in first for name in DESIGNS[design])
    assert "The attempt succeeded" in second and f"1. {kind}: Walk to the target." in second
    assert f"{kind.capitalize()}:\n- Walk to the target." in model.seen[-1]
    [lesson] = agent.lessons
    assert (lesson.text, lesson.uses, lesson.wins) == (f"{kind}: Walk to the target.", 5, 5)
    assert [(row["uses"], row["wins"]) for row in json.loads(file.read_text())] == [(5, 5)]
    # Another agent goes on with the file.
    assert successes(LessonsAgent(Learner(), design=design, data=str(file)), 2) == [True, True]


def test_attempts_of_a_task_end_with_its_trials():
    model = Learner("remember: rule: Walk to the target.")
    agent = LessonsAgent(model)
    assert successes(agent, 1, wrap=["MultiTrial:n=3"]) == [True]
    assert len(model.questions) == 1 and "> ?" in model.questions[0]
    [lesson] = agent.lessons
    assert (lesson.uses, lesson.wins) == (1, 1)
    model = Learner()
    assert successes(LessonsAgent(model), 2, wrap=["MultiTrial:n=3"]) == [False, False]
    assert len(model.questions) == 5  # three attempts at each, without the last one
    assert all(question.count("> ?") == 6 for question in model.questions)


def test_the_worst_lessons_go_and_the_best_are_shown():
    agent = LessonsAgent(Learner(), size=3, k=2)
    agent.lessons = [
        Lesson("rule: one", "E", 9, 1),
        Lesson("rule: two", "E", 9, 9),
        Lesson("rule: three", "F", 9, 0),
    ]
    agent._edit("E", "remember: rule: four\nremember: rule: five", ["rule: one", "rule: two"])
    assert [each.text for each in agent.lessons] == [
        "rule: three",
        "rule: two",
        "rule: four",
        "rule: five",
    ]
    agent._edit("E", "forget 1\nremember 2: strategy: six\nremember 2: joke: seven", ["rule: two"])
    assert [each.text for each in agent.lessons if each.env == "E"] == ["rule: four", "rule: five"]
    agent.lessons = [Lesson(f"rule: {i}", "", 4, wins) for i, wins in enumerate((0, 4, 1, 3))]
    view = View.of_text("", "nothing in common")
    assert [each.text for each in agent.select(view)] == ["rule: 1", "rule: 3"]


def test_lessons_of_another_design_are_kept_and_not_shown(tmp_path: Path):
    file = tmp_path / "lessons.json"
    name = "AgentGym/NumberLine-v0"
    file.write_text(json.dumps([{"text": "mistake: Walk to the target.", "env": name}]))
    agent = LessonsAgent(Learner("remember: rule: Count."), design="playbook", data=str(file))
    assert successes(agent, 2) == [False, False]
    texts = [row["text"] for row in json.loads(file.read_text())]
    assert texts == ["mistake: Walk to the target.", "rule: Count."]
    assert [each.text for each in agent.lessons if each.uses] == ["rule: Count."]


def test_lessons_are_about_one_environment():
    model = Learner("remember: rule: Walk to the target.")
    agent = LessonsAgent(model)
    agent.lessons = [Lesson("rule: Walk to the target.", "AgentGym/Maze-v0")]
    assert successes(agent, 2) == [False, True]
    assert "The lessons so far:\n(none)" in model.questions[0]


def test_an_own_design_and_a_writer_of_its_own(tmp_path: Path):
    (tmp_path / "design.json").write_text('{"wish": "what the user wants"}')
    agent = make_agent(f"lessons,design={tmp_path / 'design.json'}:random", writer="expert", k=3)
    assert isinstance(agent, LessonsAgent) and [*agent.kinds] == ["wish"]
    assert (agent.writer.name, agent.agent.name, agent.k) == ("expert", "random", 3)
    for text in ("[]", "{}", '{"a:b": "c"}', '{"a": 1}', "x"):
        (tmp_path / "bad.json").write_text(text)
        with pytest.raises(ConfigError, match="design must be one of"):
            LessonsAgent(Learner(), design=str(tmp_path / "bad.json"))
    with pytest.raises(ConfigError, match="k must be at least 1, got 0"):
        LessonsAgent(Learner(), k=0)
    for row in ("{", '[{"words": "a"}]', json.dumps([{"text": "rule: a", "uses": 0.5}])):
        (tmp_path / "lessons.json").write_text(row)
        with pytest.raises(DataError, match=r"lessons.json holds"):
            LessonsAgent(Learner(), data=str(tmp_path / "lessons.json"))


def test_the_writer_reads_and_the_actor_acts():
    model, writer = Learner(), Learner("remember: rule: Walk to the target.")
    agent = LessonsAgent(model)
    agent.writer = writer
    assert successes(agent, 3) == [False, True, True]
    assert not model.questions and len(writer.questions) == 2 and not writer.seen
