"""`LibraryAgent`: functions outlive the episode, failures revise them, and bad revisions go."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from agentgym.agents import View
from agentgym.agents.scaffolds import LibraryAgent
from agentgym.agents.scaffolds.base import WRITER
from agentgym.agents.scaffolds.library import Function, definitions
from agentgym.errors import ConfigError, DataError
from agentgym.evaluation import evaluate
from agentgym.evaluation.report import Report

pytest.importorskip("pydantic_monty", reason="needs the extra code")

KWARGS = {"size": 6, "max_turns": 20, "wrap": ["CodeAction:max_turns=1"]}
WALK = '''def walk(text):
    """Walks to the target."""
    words = text.replace('.', '').split()
    for _ in range(abs(int(words[6]) - int(words[3]))):
        act('+' if int(words[6]) > int(words[3]) else '-')'''


def block(code: str) -> str:
    return f"```python\n{code}\n```"


class Coder:
    """Calls `walk` once the prompt lists it, and before that the first program it is given."""

    name = "coder"

    def __init__(self, first: str = "act('+')", replies: Sequence[str] = ()):
        self.first, self.replies = first, list(replies)
        self.questions, self.seen = list[str](), list[str]()

    def act(self, views: Sequence[View]) -> list[str]:
        return [self._one(view) for view in views]

    def _one(self, view: View) -> str:
        if view.instructions == WRITER:
            self.questions.append(view.observation)
            return self.replies.pop(0) if self.replies else "None."
        self.seen.append(view.instructions)
        if "- walk(text)" not in view.instructions:
            return block(f"{self.first}\n")
        return block(f"walk({view.observation!r})")


def played(agent: LibraryAgent, tasks: int = 4) -> Report:
    return evaluate("NumberLine-v0", agent, tasks=tasks, num_envs=1, env_kwargs=KWARGS)


def wins(report: Report) -> list[bool]:
    return [episode.success for episode in report.episodes]


def test_a_function_of_a_success_is_called_in_later_episodes(tmp_path: Path):
    file = tmp_path / "library.json"
    # The first episode defines the function and happens to succeed with plain actions.
    steps = "\n".join(["for way in ['+'] * 6 + ['-'] * 6:", "    act(way)"])
    coder = Coder(f"{WALK}\n{steps}")
    agent = LibraryAgent(coder, data=str(file))
    report = played(agent)
    assert wins(report) == [True] * 4 and not coder.questions
    [function] = agent.functions
    assert definitions(WALK) == [("walk", function.source)] == [("walk", definitions(WALK)[0][1])]
    assert (function.uses, function.wins, function.env) == (3, 3, "AgentGym/NumberLine-v0")
    assert coder.seen[-1].endswith("can call:\n- walk(text): Walks to the target.")
    assert [episode.turns for episode in report.episodes][1:] == [1, 1, 1]
    later = Coder()
    assert wins(played(LibraryAgent(later, data=str(file)))) == [True] * 4
    assert json.loads(file.read_text())[0]["uses"] == 7


def test_a_failure_revises_functions_and_a_worse_revision_is_rolled_back():
    still = "def walk(text):\n    act('?')"
    snippet = block("for way in ...:")
    coder = Coder("act('?')", [f"{snippet}So:\n{block(WALK)}", "No code.", block(still)])
    agent = LibraryAgent(coder)
    assert wins(played(agent, 3)) == [False, True, True]
    assert "> ```python\nact('?')" in coder.questions[0] and "(none)" in coder.questions[0]
    [function] = agent.functions
    good = function.source
    agent._add(function.env, still, replace=True)
    assert (function.uses, function.before) == (0, good) and function.worth == 2.5 / 3
    assert wins(played(agent, 5)) == [False] * 3 + [True] * 2
    assert (function.source, function.before, function.uses) == (good, "", 2)
    assert "def walk" in coder.questions[1]


def test_programs_begin_with_what_they_need_and_nothing_else():
    agent = LibraryAgent(Coder())
    agent.functions = [
        Function("def a(x):\n    return b(x) + 1"),
        Function("def b(x):\n    return a(x) if x else 0"),
        Function("def c():\n    return 2"),
    ]
    view = View.of_text("Rules.", "Now.")
    sent = []
    for code in ("print(a(1))", "def b(x):\n    return 7\nprint(a(1))", "not a program", "1"):
        agent.agent = Coder(code)
        sent.append(agent.act([View.of_text("Rules.", "Now.")])[0])
    assert sent[0].index("def b") < sent[0].index("def a") < sent[0].index("print")
    assert "def c" not in sent[0] and sent[1].count("def b") == 1 and "return 7" in sent[1]
    assert sent[2] == block("not a program\n") and sent[3] == block("1\n")
    assert view.history == []


def test_the_library_is_bounded_and_its_file_is_checked(tmp_path: Path):
    agent = LibraryAgent(Coder(), size=2, length=30)
    agent.functions = [Function("def a():\n    pass", "E", 4, 0)]
    agent._add("E", f"def b():\n    pass\ndef c():\n    pass\n{WALK}\nx = (", replace=False)
    assert [each.source[4] for each in agent.functions] == ["a"]  # no program
    agent._add("E", f"def b():\n    pass\ndef c():\n    pass\n{WALK}", replace=False)
    assert [each.source[4] for each in agent.functions] == ["b", "c"]
    with pytest.raises(ConfigError, match="size must be at least 1, got 0"):
        LibraryAgent(Coder(), size=0)
    for text in ("{", '[{"code": "x"}]', '[{"source": "x = 1"}]', "3"):
        (tmp_path / "library.json").write_text(text)
        with pytest.raises(DataError, match=r"library\.json"):
            LibraryAgent(Coder(), data=str(tmp_path / "library.json"))


def test_functions_that_all_name_each_other_are_gathered_once():
    names = [f"f{i}" for i in range(20)]
    agent = LibraryAgent(Coder("f0()"))
    agent.functions = [
        Function(f"def {name}():\n    return {' + '.join(f'{other}()' for other in names)}")
        for name in names
    ]
    [action] = agent.act([View.of_text("Rules.", "Now.")])
    assert [action.count(f"def {name}()") for name in names] == [1] * 20


def test_a_definition_that_is_nested_too_deeply_is_left_out():
    deep = f"def f():\n    return 1{' + 1' * 900}"
    assert definitions(deep) == []
    assert definitions(f"def f():\n    return 1{' + 1' * 9}") != []


def test_the_last_definition_of_a_success_counts_and_other_programs_do_not_hide_it():
    agent, view = LibraryAgent(Coder()), View.of_text("Rules.", "Now.")
    agent.act([view])
    programs = ["def f():\n    return 1", "x = (", "def f():\n    return 2\nf()"]
    view.history = [("Now.", block(f"{program}\n")) for program in programs]
    view.info = {**view.info, "success": True}
    agent.finish(view)
    assert [each.source for each in agent.functions] == ["def f():\n    return 2"]
