"""PythonMath: programs give the answers, and variables are kept or not."""

from __future__ import annotations

import json
import random

import pytest

from agentgym.envs.code.problems import FORMS, problem_of
from agentgym.envs.code.python_math import SHOWN, PythonMath
from agentgym.sandbox import programs, run_cell
from agentgym.utils.recent import Recent

pytest.importorskip("pydantic_monty", reason="needs the extra code")


@pytest.mark.parametrize("form", FORMS)
def test_the_program_of_each_form_gives_the_answer(form):
    for seed in range(3):
        problem = form(random.Random(seed))
        output = run_cell((problem.setup, f"print({problem.result})")).output
        assert output == f"{problem.answer}\n"
        assert run_cell((f"{problem.setup}\nprint({problem.result})",)).output == output


def test_no_question_is_in_both_splits():
    train, test = (
        {problem_of(f"{split}/{number}")[0].text for number in range(300)}
        for split in ("train", "test")
    )
    assert not train & test


@pytest.mark.parametrize("persistent", [True, False])
def test_variables_are_kept_or_not(persistent: bool):
    env = PythonMath(persistent=persistent)
    env.reset(seed=0)
    env.step("```python\nx = 41\n```")
    observation, reward, terminated, _, info = env.step("Now\n```\nx + 1\n```")
    assert ("Output:\n42\n" in observation) == persistent
    assert info["missing_names"] == (not persistent)
    assert (reward, terminated, info["valid"]) == (0, False, True)
    assert ("kept" in env.instructions) == persistent


@pytest.mark.parametrize(
    "form", ["answer {}", "Answer: {}.", "Action: answer {}", "```\nanswer {}\n```"]
)
def test_forms_of_an_answer(form: str):
    env = PythonMath()
    env.reset(seed=0)
    right = problem_of(env.task)[1]
    assert env.step(form.format(right))[1:3] == (1, True)
    env.reset(seed=0)
    _, reward, terminated, _, info = env.step(form.format(right + 1))
    assert (reward, terminated, info["success"]) == (0, True, False)


@pytest.mark.parametrize("action", ["", "nonsense", "answer", "answer x", "x = 1", "```\n\n```"])
def test_other_actions_are_invalid(action: str):
    env = PythonMath()
    env.reset(seed=0)
    assert not env.step(action)[-1]["valid"]
    assert env.state.cells == []


def test_a_cell_that_uses_too_much_memory_restarts_the_interpreter():
    env = PythonMath()
    env.reset(seed=0)
    env.step("```\ny = 1\n```")
    observation = env.step("```\nx = [0] * 10**9\n```")[0]
    assert "too much memory" in observation
    assert "All variables are lost" in observation
    assert env.step("```\ny\n```")[-1]["missing_names"] == 1


def test_a_long_output_is_shortened():
    env = PythonMath()
    env.reset(seed=0)
    assert len(env.step("```\nprint('x' * 9000)\n```")[0]) < SHOWN + 500


def test_a_snapshot_needs_nothing_but_the_cells(monkeypatch: pytest.MonkeyPatch):
    env, other = PythonMath(), PythonMath()
    env.reset(seed=0)
    for cell in ("import random\nx = random.random()", "def f(n):\n    return n * x", "1 / 0"):
        env.step(f"```\n{cell}\n```")
    snapshot = json.loads(json.dumps(env.snapshot()))
    expected = env.step("```\nprint(f(3), random.random())\n```")
    monkeypatch.setattr(programs, "_sessions", Recent(1 << 20))
    other.restore(snapshot)
    assert other.step("```\nprint(f(3), random.random())\n```") == expected


def test_lines_may_end_with_carriage_returns():
    env = PythonMath()
    env.reset(seed=0)
    observation, *_, info = env.step("```python\r\nx = 41\r\nx + 1\r\n```")
    assert info["valid"] and "Output:\n42\n" in observation


@pytest.mark.parametrize(
    "answer", ["answer 45", "**Answer: 45**", "Final answer: 45.", "answer(45)"]
)
def test_a_cell_and_an_answer_are_two_actions(answer: str):
    env = PythonMath()
    env.reset(seed=0)
    cell = "```python\nprint(1)\n```"
    for action in (f"{cell}\n{answer}", f"{answer}\n{cell}", f"{cell}\n\nSo:\n{answer}\n"):
        text, _, ended, _, info = env.step(action)
        assert "one action only" in text and not info["valid"] and not ended
    assert env.step(f"The answer is not known yet.\n{cell}")[0].startswith("Output:\n1")
    assert env.step("```python\nprint('answer 45')\n```")[0].startswith("Output:\nanswer 45")
