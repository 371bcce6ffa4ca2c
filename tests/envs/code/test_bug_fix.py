"""BugFix: planted bugs change results, programs end, edits are applied as written."""

from __future__ import annotations

import ast

import pytest

from agentgym.envs.code import bug_fix
from agentgym.envs.code.bug_fix import BugFix
from agentgym.envs.code.bugs import bug_of, edited, edits, results
from agentgym.envs.code.judge import judge
from agentgym.envs.code.repositories import repositories
from agentgym.errors import ConfigError

pytest.importorskip("sandlock", reason="needs the extra code")


def started(**kwargs) -> BugFix:
    env = BugFix(**kwargs)
    env.reset(options={"task": "train/0"})
    return env


@pytest.mark.parametrize("repository", repositories(), ids=lambda r: r.name)
def test_a_program_ends_whatever_is_changed(repository):
    for source in repository.files.values():
        tree = ast.parse(source.replace("<<", "1").replace(">>", "0"))
        assert not any(
            isinstance(node, ast.While | ast.Import | ast.JoinedStr) for node in ast.walk(tree)
        )
        for function in tree.body:
            if isinstance(function, ast.FunctionDef):
                names = [n.id for n in ast.walk(function) if isinstance(n, ast.Name)]
                assert function.name not in names, "no recursion"
    goal = bug_of_repository(repository.name).goal
    expected = results(goal, repository.calls)
    assert not any(str(result).startswith("!") for result in expected)
    failing = 0
    for edit in edits(goal):
        planted = edited(goal, [edit])
        assert planted != goal
        failing += results(planted, repository.calls) != expected
    assert failing > 20


def bug_of_repository(name: str):
    repository = next(r for r in repositories() if r.name == name)
    bugs = (bug_of(f"train/{n}", 1) for n in range(200))
    return next(bug for bug in bugs if bug.goal.keys() == repository.files.keys())


def test_a_bug_fails_the_first_public_test_and_another_one():
    for number in range(30):
        bug = bug_of(f"train/{number}", 1)
        calls = [call.text for call in bug.hidden]
        expected = [call.expected for call in bug.hidden]
        wrong = results(bug.files, calls)
        assert sum(a != b for a, b in zip(wrong, expected, strict=True)) > 1
        assert results(bug.files, [bug.public[0].text]) != [bug.public[0].expected]
        assert bug.public[0] in bug.hidden
        assert results(bug.goal, calls) == expected


@pytest.mark.slow
def test_no_bug_is_in_both_splits():
    train, test = (
        {bug_of(f"{split}/{number}", 1).key for number in range(40)} for split in ("train", "test")
    )
    assert not train & test
    assert len(train) > 20


def test_the_sandbox_gives_the_results_of_the_generator():
    for name in ("shop", "texts"):
        bug = bug_of_repository(name)
        modules = ", ".join(file[:-3] for file in bug.goal)
        verdicts, _ = judge(f"import {modules}", bug.hidden, interpreter="cpython", files=bug.goal)
        assert all(verdict.right for verdict in verdicts)


@pytest.mark.parametrize("bugs", [1, 2, 3])
def test_the_expert_repairs_and_an_untouched_program_earns_nothing(bugs: int):
    env = started(bugs=bugs)
    assert env.step("submit")[1:3] == (0, True)
    env.reset(options={"task": "train/0"})
    done, reward = False, 0.0
    while not done:
        _, reward, done, truncated, info = env.step(str(env.expert()))
        assert info["valid"] and not truncated
    assert reward == 1


def test_a_special_case_for_the_report_is_no_solution():
    env = started()
    call = env.bug.public[0]
    module, _, rest = call.text.partition(".")
    function = rest.partition("(")[0]
    lines = env.state.files[f"{module}.py"].splitlines()
    last = len(lines)
    env.step(
        f"edit {module}.py {last}\n```\n{lines[-1]}\n\n\n_old = {function}\n\n\n"
        f"def {function}(*a):\n    known = {call.expected!r}\n"
        f"    return known if list(a) == list(({rest.partition('(')[2][:-1]},)) else _old(*a)\n```"
    )
    assert "4 of 4" in env.step("test")[0]
    assert env.step("submit")[1] == 0


def test_edits_replace_lines_as_written():
    env = started()
    name = next(iter(env.state.files))
    before = env.state.files[name].split("\n")
    observation = env.step(f"edit {name} 2-3\n```python\n    a = 1\nb = 2\nc = 3\n```")[0]
    assert env.state.files[name].split("\n") == [
        before[0],
        "    a = 1",
        "b = 2",
        "c = 3",
        *before[3:],
    ]
    assert "  3 b = 2" in observation
    env.step(f"edit {name} 2-4")
    assert env.state.files[name].split("\n") == [before[0], *before[3:]]
    env.step(f"edit {name} 1\nx = 0")
    assert env.state.files[name].split("\n") == ["x = 0", *before[3:]]
    assert str(env.expert()).startswith(("test", "read"))


@pytest.mark.parametrize(
    ("action", "feedback"),
    [
        ("read /etc/passwd", "There is no file '/etc/passwd'"),
        ("read ../bug_fix.py", "There is no file"),
        ("edit FILE 0-1\nx", "has the lines 1 to"),
        ("edit FILE 5-2\nx", "has the lines 1 to"),
        ("edit FILE 1-9999\nx", "has the lines 1 to"),
        ("edit other.py 1\nx", "There is no file"),
        ("edit FILE 1\n" + "x" * 9990, "at most|1 to 10,000"),
        ("run", "Write a program after run"),
        ("fix it", "Reply with read FILE"),
    ],
)
def test_other_actions_are_invalid_and_cost_no_sandboxed_call(
    action: str, feedback: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(bug_fix, "run_program", None)
    monkeypatch.setattr(bug_fix, "judge", None)
    env = started()
    files = dict(env.state.files)
    name = next(iter(files))
    observation, *_, info = env.step(action.replace("FILE", name))
    assert not info["valid"]
    assert any(part in observation for part in feedback.split("|"))
    assert env.state.files == files


def test_a_program_runs_with_the_files_and_errors_are_shown():
    env = started()
    name = next(iter(env.state.files))
    module = name.removesuffix(".py")
    assert (
        f"Output:\n{module}"
        in env.step(f"run\n```\nimport {module}\nprint({module}.__name__)\n```")[0]
    )
    env.step(f"edit {name} 1\ndef broken(:")
    assert f'File "{name}", line 1' in env.step("test")[0]
    assert "Hidden tests passed: 0" in env.step("submit")[0]


def test_carriage_returns_are_no_part_of_an_edit():
    env = started()
    name = next(iter(env.state.files))
    for edit in (f"edit {name} 1\r\na = 1\r\nb = 2\r\n", f"edit {name} 1-2\n```\r\nc = 3\r\n```"):
        assert env.step(edit)[-1]["valid"]
    assert env.state.files[name].startswith("c = 3\n") and "\r" not in env.state.files[name]


def test_wrong_arguments_are_refused():
    with pytest.raises(ConfigError, match="bugs must be 1, 2 or 3, got 4"):
        BugFix(bugs=4)


def test_generation_is_the_same_for_the_same_task():
    bug = bug_of("test/5", 2)
    bug_of.cache_clear()
    assert bug_of("test/5", 2) == bug


@pytest.mark.parametrize("form", ["Read {}", "read `{}`", "**read {}**", "read {}.", 'cat "{}"'])
def test_actions_may_have_capitals_and_marks(form: str):
    env = started()
    name = next(iter(env.state.files))
    expected = env.step(f"read {name}")
    assert env.step(form.format(name))[0] == expected[0]
    assert env.step("Test.")[0].startswith("Public tests passed")
    first = env.state.files[name].split("\n")[0]
    for edit in ("Edit `{}` line 1:", "edit {} 1 :", "edit {} lines 1-1"):
        assert env.step(f"{edit.format(name)}\n```python\n{first}\n```")[4]["valid"]
    assert not env.step(f"do not read {name}")[4]["valid"]
    assert not env.step(f"read {name} and {name}")[4]["valid"]
    _, _, ended, _, info = env.step("Submit?")
    assert not ended and not info["valid"]
