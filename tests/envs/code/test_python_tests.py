"""PythonTests: reference programs pass, constants earn nothing, verdicts cannot be forged."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from agentgym.envs.code import judge as judging
from agentgym.envs.code.functions import LEVELS, NAME, Function, function_of
from agentgym.envs.code.judge import Call, judge, same_value
from agentgym.envs.code.python_tests import PythonTests
from agentgym.errors import ConfigError
from agentgym.sandbox import Interpreter, Outcome

pytest.importorskip("pydantic_monty", reason="needs the extra code")
pytest.importorskip("sandlock", reason="needs the extra code")


def right(function: Function, program: str, interpreter: Interpreter = "monty") -> list[bool]:
    calls = function.public + function.hidden
    return [verdict.right for verdict in judge(program, calls, interpreter=interpreter)[0]]


@pytest.mark.parametrize("level", LEVELS)
def test_reference_programs_pass_their_tests(level: str):
    for number in range(15):
        function = function_of(f"train/{number}", level)
        assert all(right(function, function.program)), function.program


def test_both_interpreters_agree():
    for number in range(3):
        function = function_of(f"test/{number}", "mixed")
        assert all(right(function, function.program, "cpython"))


@pytest.mark.slow
def test_no_function_is_in_both_splits():
    train, test = (
        {function_of(f"{split}/{number}", "easy").text for number in range(300)}
        for split in ("train", "test")
    )
    assert not train & test
    assert len(train) > 200


def test_no_step_is_about_letters_after_one_that_appends_digits():
    for i in range(500):
        text = function_of(f"train/{i}", "mixed").text
        _, appended, later = text.partition("Append to each word its position")
        later = later.replace("letters and digits", "").replace("letter e", "")
        assert not appended or "letter" not in later, text


@pytest.mark.parametrize("number", range(4))
def test_the_best_constant_earns_nothing(number: int):
    env = PythonTests(partial=True)
    env.reset(options={"task": f"train/{number}"})
    function = env.function
    counts = Counter(json.dumps(call.expected) for call in function.hidden)
    answer = json.loads(counts.most_common(1)[0][0])
    public = {call.text: call.expected for call in function.public}
    program = f"known = {public!r}\ndef {NAME}(x):\n    " + (
        f"return known.get('{NAME}(' + repr(x) + ')', {answer!r})"
    )
    _, reward, terminated, _, info = env.step(program)
    assert (reward, terminated, info["progress"]) == (0, True, 0)


def test_a_share_of_the_tests_earns_a_share_of_the_reward():
    rewards = []
    for partial in (False, True):
        env = PythonTests(partial=partial)
        env.reset(options={"task": "train/3"})
        program = env.function.program.replace(f"def {NAME}(", "def right(")
        wrong = env.function.hidden[0].text.removeprefix(NAME)
        code = f"{program}\ndef {NAME}(x):\n    return None if x == {wrong} else right(x)"
        _, reward, _, _, info = env.step(code)
        rewards.append(reward)
        assert not info["success"]
    function = env.function
    assert rewards == [0, 1 - 1 / (len(function.hidden) - function.constant)]


def test_a_failing_public_test_is_shown_and_can_be_corrected():
    env = PythonTests()
    env.reset(options={"task": "train/0"})
    call = env.function.public[0]
    observation, reward, terminated, _, info = env.step(
        f"```python\ndef {NAME}(x):\n    print('here')\n    return 'wrong'\n```"
    )
    assert f"{call.text} should return {call.expected!r}. Result: 'wrong'" in observation
    assert "Output:\nhere" in observation
    assert (reward, terminated, info["valid"]) == (0, False, True)
    start, program = env.snapshot(), env.expert()
    assert env.step(f"Like this:\n```\n{program}\n```\nDone.")[1] == 1
    env.restore(start)
    every = f"def {NAME}_all(xs):\n    return [{NAME}(x) for x in xs]"
    assert env.step(f"```\n{program}\n```\nOf several:\n```\n{every}\n```")[1] == 1


@pytest.mark.parametrize(
    ("program", "shown"),
    [
        ("def solve(x):\n    return 1 / 0", "ZeroDivisionError: division by zero"),
        ("def solve(x:\n    return", "SyntaxError"),
        ("def solve(x):\n    return x\nraise ValueError('no')", "ValueError: no"),
        ("def solve(x):\n    return [x] * 10**9", "too much memory"),
        ("def solve(x):\n    return {1, 2}", "TypeError"),
        ("def solve(x):\n    return solve", "TypeError"),
        ("def solve(x):\n    return 10 ** 5000", "should return"),
    ],
)
def test_errors_are_feedback(program: str, shown: str):
    env = PythonTests()
    env.reset(seed=0)
    observation, _, terminated, _, info = env.step(program)
    assert shown in observation
    assert not terminated and info["valid"]


def test_an_action_without_the_function_costs_no_sandboxed_call(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(judging, "run_program", None)
    env = PythonTests()
    env.reset(seed=0)
    for action in ("", "nonsense", "```python\nprint(1)\n```", "def other(): pass"):
        assert not env.step(action)[-1]["valid"]


def test_expected_results_do_not_enter_the_sandbox(monkeypatch: pytest.MonkeyPatch):
    programs = []

    def run(program: str, **_: object) -> Outcome:
        programs.append(program)
        return Outcome("")

    monkeypatch.setattr(judging, "run_program", run)
    for expected in (1, "a secret"):
        judge("def solve(x): pass", [Call("solve(3)", expected)], interpreter="monty")
    assert programs[0] == programs[1]


@pytest.mark.parametrize("interpreter", ["monty", "cpython"])
def test_a_printed_verdict_or_an_odd_value_is_no_pass(interpreter: Interpreter):
    calls = [Call("solve(3)", 1), Call("solve(4)", 4)]
    forged = "print('@@result 9\\n' * 5)\ndef solve(x):\n    return x"
    true = "def solve(x):\n    return x == 3 or x"
    equal = (
        "class A:\n    def __eq__(self, other):\n        return True\ndef solve(x):\n    return A()"
    )
    stopped = "def solve(x):\n    raise KeyboardInterrupt if x == 4 else ValueError"
    for program in (forged, true, equal, stopped):
        verdicts, _ = judge(program, calls, interpreter=interpreter)
        assert len(verdicts) == 2
        assert not verdicts[0].right, program


def test_the_output_of_a_program_is_not_a_result():
    verdicts, output = judge(
        "print('start')\ndef solve(x):\n    print('in')\n    return x",
        [Call("solve(3)", 3)],
        interpreter="monty",
    )
    assert verdicts[0].right
    assert output == "start\nin"


def test_an_episode_in_cpython():
    env = PythonTests(interpreter="cpython", level="hard")
    env.reset(seed=1)
    program = str(env.expert()).replace("def solve", "import heapq\ndef solve")
    assert env.step(program)[1] == 1
    assert "standard library" in env.instructions


def test_wrong_arguments_are_refused():
    with pytest.raises(ConfigError, match="level must be one of"):
        PythonTests(level="simple")
    with pytest.raises(ConfigError, match="interpreter"):
        PythonTests(interpreter="jython")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "expected", "same"),
    [
        *((2.0, 2, True), (2, 2.0, True), (2.5, 2, False), (True, 1, False), (0, False, False)),
        *(([1.0, [2]], [1, [2.0]], True), ([1], [1, 2], False), ({"a": 1.0}, {"a": 1}, True)),
        *(({"a": 1}, {"b": 1}, False), (None, None, True), ("2", 2, False), ([True], [1], False)),
        (float("nan"), float("nan"), True),
    ],
)
def test_results_are_compared_by_value(value: object, expected: object, same: bool):
    assert same_value(value, expected) == same
