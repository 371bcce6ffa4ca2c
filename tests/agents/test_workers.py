"""`WorkersAgent`: the controller chooses, and the worker acts by its kind of action alone."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from agentgym.agents import View, make_agent
from agentgym.agents.scaffolds import WorkersAgent
from agentgym.agents.scaffolds.base import WRITER
from agentgym.core import TextEnv
from agentgym.errors import ConfigError
from agentgym.evaluation import evaluate
from agentgym.tasks import Tasks
from agentgym.time_step import TimeStep

ACTIONS = ("search a", "search b", "click a", "click b")


class Shop(TextEnv):
    """Solved by `search b` and then `click b`."""

    instructions = "Search, then click."
    State = dict

    def __init__(self, **kwargs):
        super().__init__(max_turns=2, **kwargs)
        self.tasks = Tasks.generated(4)

    def _start(self, task: str) -> TimeStep:
        self.state = {"found": False}
        return TimeStep("Nothing is found.", admissible=ACTIONS)

    def _advance(self, action: str) -> TimeStep:
        done = bool(self.state["found"]) and action == "click b"
        self.state = {"found": action == "search b"}
        text = "Found." if self.state["found"] else "Nothing is found."
        rewards = {"task": float(done)}
        return TimeStep(text, rewards, done, success=done, admissible=ACTIONS)


class Model:
    """Names the kind that fits as the controller, and takes the last action that it may take."""

    name = "model"

    def __init__(self, controls: bool = True):
        self.controls, self.seen = controls, list[View]()

    def act(self, views: Sequence[View]) -> list[str]:
        return [self._one(view) for view in views]

    def _one(self, view: View) -> str:
        if view.instructions != WRITER:
            self.seen.append(view)
            return view.info["admissible"][-1]
        assert "by one kind of action: " in view.observation
        if not self.controls:
            return "I do not know."
        kind = "click" if "Found." in view.observation.rpartition("> ")[2] else "search"
        return f"<think>click</think>**{kind.capitalize()}**: for b"


def success(agent: WorkersAgent) -> float:
    return evaluate(Shop, agent, tasks=3).aggregate()["success"].mean


def test_each_kind_of_action_has_a_worker():
    model = Model()
    assert success(WorkersAgent(model)) == 1
    first, second = model.seen[0], model.seen[-1]
    assert first.info["admissible"] == ACTIONS[:2] and second.info["admissible"] == ACTIONS[2:]
    assert first.instructions.endswith(
        "`search`. The controller has chosen you for this turn: for b"
    )
    assert second.history == [("Nothing is found.", "search b")]


def test_without_a_controller_that_chooses_the_first_worker_acts():
    model = Model(controls=False)
    assert success(WorkersAgent(model)) == 0
    assert {view.info["admissible"] for view in model.seen} == {ACTIONS[:2]}
    assert all(view.instructions.endswith("for this turn.") for view in model.seen)
    other = Model(controls=False)
    assert success(WorkersAgent(other, kinds="buy/sell")) == 0
    assert {view.info["admissible"] for view in other.seen} == {ACTIONS}  # none is of these kinds


def test_the_controller_may_be_another_agent():
    agent = WorkersAgent(Model(controls=False))
    agent.writer = Model()
    assert success(agent) == 1


def test_kinds_are_two_or_more_words():
    assert make_agent("workers,kinds=look/go/take:random").kinds == ["look", "go", "take"]  # type: ignore[attr-defined]
    for kinds in ("", "go", "go/go", "go/"):
        with pytest.raises(ConfigError, match="two or more first words"):
            WorkersAgent(Model(), kinds=kinds)
