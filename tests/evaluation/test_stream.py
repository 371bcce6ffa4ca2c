"""The curve of success over a stream of tasks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from agentgym.agents import View
from agentgym.agents.scaffolds import LessonsAgent
from agentgym.agents.scaffolds.base import WRITER
from agentgym.errors import ConfigError
from agentgym.evaluation import evaluate
from agentgym.evaluation.stream import success_curve


class Learner:
    """Learns to walk from its third failure."""

    name = "learner"
    questions = 0

    def act(self, views: Sequence[View]) -> list[str]:
        return [self._one(view) for view in views]

    def _one(self, view: View) -> str:
        if view.instructions == WRITER:
            self.questions += 1
            return "remember: rule: Walk." if self.questions == 3 else "Nothing."
        walks = "- Walk." in view.instructions
        return str(view.env.get_wrapper_attr("expert")()) if walks else "?"


def test_success_rises_where_the_agent_has_learned(tmp_path: Path):
    file = tmp_path / "stream.jsonl"
    evaluate("NumberLine-v0", LessonsAgent(Learner()), tasks=9, num_envs=1, save=file)
    curve = success_curve(file, 3)
    assert [each.mean for each in curve] == [0.0, 1.0, 1.0]
    assert curve[0].high is not None and curve[0].high < 1
    assert [each.mean for each in success_curve(file, 2)] == [1 / 4, 1.0]
    for parts in (0, 10):
        with pytest.raises(ConfigError, match="parts must be 1 to 9"):
            success_curve(file, parts)
    with pytest.raises(ConfigError):
        success_curve(tmp_path / "none.jsonl")
