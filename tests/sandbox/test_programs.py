"""Programs and sessions: outcomes, limits, forks, crashes and missing sandboxes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from agentgym.errors import ConfigError, MissingExtraError, SandboxError
from agentgym.sandbox import Cell, Interpreter, Limits, check_sandbox, client, programs, run_calls
from agentgym.sandbox import run_cell as cell
from agentgym.sandbox import run_program as program
from agentgym.utils.recent import Recent

pytest.importorskip("sandlock", reason="needs the extra code")
pytest.importorskip("pydantic_monty", reason="needs the extra code")


@pytest.fixture
def unchecked() -> Iterator[None]:
    check_sandbox.cache_clear()
    yield
    check_sandbox.cache_clear()


both = pytest.mark.parametrize("interpreter", ["monty", "cpython"])


@both
def test_an_outcome_has_the_output_and_the_error(interpreter: Interpreter):
    outcome = program("print('hello')\nx = [1, 2]\nx[2]", interpreter=interpreter)
    assert outcome.output == "hello\n"
    assert outcome.error.rstrip().endswith("IndexError: list index out of range")
    assert "line 3" in outcome.error
    assert not outcome.stopped
    assert outcome.text == f"hello\n{outcome.error.strip()}"


@both
def test_long_outputs_and_errors_are_cut(interpreter: Interpreter):
    limits = Limits(output=1000)
    outcome = program(
        "print('x' * 2000)\nraise ValueError('y' * 2000)", interpreter=interpreter, limits=limits
    )
    assert (outcome.output, outcome.stopped) == ("x" * 1000, "")
    assert outcome.error.strip() in "y" * 1000


@pytest.mark.slow
@both
def test_a_program_that_takes_too_long_is_told_so(interpreter: Interpreter):
    outcome = program("while True:\n    pass", interpreter=interpreter, limits=Limits(seconds=1))
    assert outcome.stopped == "time"
    assert outcome.error == "TimeoutError: the program took too long and was stopped"


@both
def test_a_syntax_error_is_an_error(interpreter: Interpreter):
    assert "SyntaxError" in program("x = (", interpreter=interpreter).error


def test_a_cell_shows_the_value_of_its_last_expression():
    assert cell(("1 + 1",)).output == "2\n"
    assert cell(("x = 1",)).output == ""
    assert cell(("None",)).output == ""


def test_cells_share_variables_and_a_stopped_cell_restarts_the_interpreter():
    assert cell(("x = 1", "x += 1", "x")).output == "2\n"
    assert cell(("x = 1", "x = 5\n1 / 0", "x")).output == "5\n", "an error is no restart"
    full = "y = [0]\nwhile True:\n    y = y + y"
    small = Limits(memory=4 << 20)
    assert cell(("x = 1", full), limits=small).stopped == "memory"
    assert "NameError" in cell(("x = 1", full, "x"), limits=small).error


@pytest.mark.slow
def test_a_session_replayed_from_its_cells_is_the_same(monkeypatch: pytest.MonkeyPatch):
    cells = (
        "import random\nx = random.random()",
        "def f(n):\n    return n + x",
        "print(f(1), random.random(), {'b', 'a', 'c'}, hash('a'), id(f))",
    )
    expected = [cell(cells[: n + 1]) for n in range(3)]
    monkeypatch.setattr(programs, "_sessions", Recent(1))
    client._close_all()
    assert cell(cells) == expected[2]
    assert [cell(cells[: n + 1]) for n in range(3)] == expected


@pytest.mark.slow
@both
def test_outcomes_are_those_of_another_process(interpreter: Interpreter):
    code = "print({'b', 'a', 'c'}, hash('a'), id([]))\nimport random\nprint(random.random())"
    script = (
        "from agentgym.sandbox import run_program\n"
        f"print(run_program({code!r}, interpreter={interpreter!r}).output, end='')"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.stdout == program(code, interpreter=interpreter).output != ""


@both
def test_unicode_and_zero_bytes_are_no_problem(interpreter: Interpreter):
    assert program("print('é東🙂')", interpreter=interpreter).output == "é東🙂\n"
    for code in ("print('\ud800')", "x = '\0'", "\ufeffx = 1", "print(chr(0xd800))"):
        assert not program(code, interpreter=interpreter).stopped


def test_deep_and_large_values_are_no_problem():
    deep = "x = []\nfor i in range(100_000):\n    x = [x]\nx"
    assert len(program(deep).output) <= Limits().output
    assert len(program("list(range(200_000))").output) == Limits().output
    assert program("10 ** 5000").stopped == ""


def test_a_program_imports_the_files_of_its_job():
    files = {
        "shop/stock.py": "COUNT = 3\n",
        "shop/__init__.py": "",
        "tax.py": "def f():\n    1 / 0\n",
    }
    outcome = program("import tax\ntax.f()", interpreter="cpython", files=files)
    assert 'File "tax.py", line 2, in f\n    1 / 0' in outcome.error


@both
def test_a_program_sleeps(interpreter: Interpreter):
    code = "from time import sleep\nsleep(0.01)\nprint('awake')"
    assert program(code, interpreter=interpreter).output == "awake\n"


def test_a_program_that_is_too_long_is_not_run():
    assert "at most 100,000 characters" in program("x = 1\n" * 20_000).error
    assert "at most 100,000 characters" in cell(("x = 1\n" * 20_000,)).error


def test_a_forked_process_has_workers_of_its_own():
    program("print('parent')")
    if (child := os.fork()) == 0:
        os._exit(program("print('child')").output != "child\n")
    assert os.waitpid(child, 0)[1] == 0
    assert program("print('parent again')").output == "parent again\n"


def test_threads_share_workers_and_outcomes():
    def run(number: int) -> str:
        return program(f"print({number % 10})").output

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(run, range(40))) == [f"{number % 10}\n" for number in range(40)]


def test_files_need_cpython():
    with pytest.raises(ConfigError, match="files need the interpreter 'cpython', got 'monty'"):
        program("import a", files={"a.py": ""})


def test_a_program_calls_functions_of_the_caller():
    def double(args: list[int], kwargs: dict[str, int]) -> int:
        if kwargs:
            raise ValueError("no names, please")
        return 2 * args[0]

    outcome, cell_ = run_calls((), "x = double(3)\nprint(x, double(x))", {"double": double})
    assert outcome.output == "6 12\n"
    assert cell_ == Cell(cell_.code, ('{"value": 6}', '{"value": 12}'), ("double",))
    outcome, _ = run_calls((cell_,), "double(n=x)", {"double": double})
    assert "RuntimeError: no names, please" in outcome.error


def test_a_worker_that_dies_while_it_waits_is_replaced():
    program("print('before')")
    for worker in client._idle:
        worker._process.kill()
        worker._process.wait()
    assert program("print('after')").output == "after\n"


def test_a_worker_that_dies_during_a_program_is_replaced():
    def die(args: list[int], kwargs: dict[str, int]) -> int:
        taken[-1]._process.kill()
        taken[-1]._process.wait()
        return 1

    program("print('before')")
    taken = list(client._idle)
    assert run_calls((), "die()", {"die": die})[0].stopped == "crash"
    assert program("print('then')").output == "then\n"


@pytest.mark.usefixtures("unchecked")
def test_without_the_package_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(programs.PACKAGES, "cpython", "no_such_package")
    with pytest.raises(MissingExtraError, match=r"pip install 'agentgym-suite\[code\]'"):
        program("print(1)", interpreter="cpython")


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    "answer",
    [
        {"reason": "sandlock needs Linux 6.7"},
        {"reason": "", "output": "denied\n", "error": "", "stopped": ""},
    ],
)
def test_without_a_sandbox_nothing_runs(monkeypatch: pytest.MonkeyPatch, answer: dict[str, str]):
    asked = []
    monkeypatch.setattr(programs, "ask", lambda request: asked.append(request) or answer)
    with pytest.raises(SandboxError, match="never run without one"):
        program("print('mine')", interpreter="cpython")
    assert "mine" not in str(asked)


def test_a_program_that_ignores_the_signal_of_its_limit_took_too_long():
    pytest.importorskip("sandlock", reason="needs the extra code")
    code = "import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass"
    outcome = program(code, interpreter="cpython", limits=programs.Limits(seconds=1))
    assert outcome.stopped == "time" and "took too long" in outcome.error
