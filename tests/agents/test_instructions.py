"""`InstructionsAgent`: outcomes belong to instructions, bad ones go, better ones take over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from agentgym.agents import View, make_agent
from agentgym.agents.scaffolds import AdaptAgent, InstructionsAgent, RulesAgent
from agentgym.agents.scaffolds.base import WRITER
from agentgym.agents.scaffolds.instructions import Instruction
from agentgym.envs.numbers.number_line import NumberLine
from agentgym.errors import ConfigError, DataError
from agentgym.evaluation import evaluate


class Reader:
    """Walks to the target only if an instruction says so. It writes one bad, then good ones."""

    name = "reader"

    def __init__(self):
        self.shown: Counter[str] = Counter()
        self.questions: list[str] = []

    def act(self, views: Sequence[View]) -> list[str]:
        return [self._one(view) for view in views]

    def _one(self, view: View) -> str:
        if view.instructions == WRITER:
            self.questions.append(view.observation)
            return "Stand still." if len(self.questions) == 1 else "Walk to the target."
        added = view.instructions.splitlines()[-1]
        if not view.history:
            self.shown[added] += 1
        if added != "Walk to the target.":
            return "?"
        words = view.observation.replace(".", "").split()
        return "+" if int(words[6]) > int(words[3]) else "-"


def make() -> NumberLine:
    return NumberLine(size=5, max_turns=6)


def test_the_better_instruction_takes_over(tmp_path: Path):
    reader, file = Reader(), tmp_path / "population.json"
    agent = InstructionsAgent(reader, size=3, every=6, temperature=0.1, data=str(file))
    report = evaluate(make, agent, tasks=80, num_envs=1)
    won = [episode.success for episode in report.episodes]
    assert not any(won[:12]) and sum(won[-30:]) > 24
    best = max(agent.population, key=lambda each: each.value)
    assert best.text == "Walk to the target." and best.episodes == best.successes == sum(won)
    assert len(agent.population) <= 3 and sum(reader.shown.values()) == 80
    assert "A failed episode:\n\nYou are at" in reader.questions[0]
    assert "- (none) (0 of 6 episodes succeeded)" in reader.questions[0]
    assert "- Stand still. (0 of" in reader.questions[1]
    again = InstructionsAgent(Reader(), data=str(file))
    assert again.population == agent.population


def test_the_worst_instruction_that_was_tried_goes():
    agent = InstructionsAgent(Reader(), size=3)
    agent.population = [Instruction("a", 9, 6), Instruction("b", 9, 1), Instruction("c")]
    agent._add("d")
    assert [each.text for each in agent.population] == ["a", "c", "d"]
    agent._add("a")  # known
    assert [each.text for each in agent.population] == ["a", "c", "d"]


def test_settings_and_files_that_cannot_be_used(tmp_path: Path):
    with pytest.raises(ConfigError, match="size must be at least 2"):
        InstructionsAgent(Reader(), size=1)
    with pytest.raises(ConfigError, match="temperature must be positive"):
        InstructionsAgent(Reader(), temperature=0.0)
    file = tmp_path / "x.json"
    for text in ('[{"words": 3}]', '[{"text": 3}]', '[{"text": "a", "episodes": "b"}]'):
        file.write_text(text)
        with pytest.raises(DataError, match="holds no population"):
            InstructionsAgent(Reader(), data=str(file))
    file.write_bytes(b"\xff")
    for agent in (InstructionsAgent, RulesAgent):
        with pytest.raises(DataError, match=r"x\.json cannot be read as a text file"):
            agent(Reader(), data=str(file))
    for kind, options, message in [
        (InstructionsAgent, {"every": "8"}, "every must be at least 1, got '8'"),
        (RulesAgent, {"trials": 2}, "trials must be at least 3, got 2"),
        (AdaptAgent, {"depth": None}, "depth must be at least 1, got None"),
    ]:
        with pytest.raises(ConfigError, match=message):
            kind(Reader(), **options)
    assert isinstance(make_agent("instructions,every=4:random"), InstructionsAgent)
