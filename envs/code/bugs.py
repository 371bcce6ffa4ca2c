"""Plants bugs in small programs: mutations of the source that change results."""

from __future__ import annotations

import ast
import builtins
import json
import random
import re
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

from agentgym.envs.code.judge import Call
from agentgym.envs.code.repositories import Repository, repositories
from agentgym.tasks import draw_level, task_rng

PUBLIC = 4
"""Number of tests that are shown: one that fails and others that pass."""
_NUMBER = re.compile(r"<<(\d+)-(\d+)>>")
_OPERATORS: dict[type[ast.AST], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "+"),
    ast.FloorDiv: ("//", "%"),
    ast.Mod: ("%", "//"),
    ast.And: ("and", "or"),
    ast.Or: ("or", "and"),
}
_NAMES = {"min": "max", "max": "min", "all": "any", "any": "all"}


@dataclass(frozen=True)
class Edit:
    """A mutation of a file: the characters from `start` to `stop` become `text`."""

    file: str
    start: int
    stop: int
    text: str


@dataclass(frozen=True)
class Bug:
    """A program with bugs.

    Attributes:
        key: the number of the program and those of its mutations.
        goal: the files without bugs.
        files: the files with bugs.
        public: tests that are shown. The first fails.
        hidden: all tests.
        result: the wrong result of the first test.
    """

    key: tuple[int, ...]
    goal: dict[str, str]
    files: dict[str, str]
    public: tuple[Call, ...]
    hidden: tuple[Call, ...]
    result: str


def _edits(file: str, source: str) -> Iterator[Edit]:
    """Yields the mutations of a file."""
    tree = ast.parse(source)
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def place(line: int, column: int) -> int:
        return starts[line - 1] + column

    def between(left: Any, right: Any, operator: ast.AST) -> Iterator[Edit]:
        first = place(left.end_lineno, left.end_col_offset)
        last = place(right.lineno, right.col_offset)
        if type(operator) in _OPERATORS:
            old, new = _OPERATORS[type(operator)]
            at = first + source[first:last].index(old)
            yield Edit(file, at, at + len(old), new)

    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            operands = [node.left, *node.comparators]
            for left, right, operator in zip(operands, operands[1:], node.ops, strict=False):
                yield from between(left, right, operator)
        elif isinstance(node, ast.BinOp):
            yield from between(node.left, node.right, node.op)
        elif isinstance(node, ast.BoolOp):
            yield from between(node.values[0], node.values[1], node.op)
        elif isinstance(node, ast.Constant) and type(node.value) is int:
            start = place(node.lineno, node.col_offset)
            stop = place(node.end_lineno or 0, node.end_col_offset or 0)
            yield Edit(file, start, stop, str(node.value + 1))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if new := _NAMES.get(node.func.id):
                start = place(node.lineno, node.col_offset)
                yield Edit(file, start, start + len(node.func.id), new)
        elif isinstance(node, ast.FunctionDef):
            names = [argument.arg for argument in node.args.args]
            for used in ast.walk(node):
                if isinstance(used, ast.Name) and used.id in names and len(names) > 1:
                    other = names[(names.index(used.id) + 1) % len(names)]
                    start = place(used.lineno, used.col_offset)
                    yield Edit(file, start, start + len(used.id), other)


def _filled(repository: Repository, rng: random.Random) -> dict[str, str]:
    """Returns the files with sampled numbers."""

    def number(found: re.Match[str]) -> str:
        return str(rng.randint(int(found[1]), int(found[2])))

    return {name: _NUMBER.sub(number, source) for name, source in repository.files.items()}


def edits(files: Mapping[str, str]) -> list[Edit]:
    """Returns the mutations of a program. Their order does not depend on its numbers."""
    return [edit for file, source in files.items() for edit in _edits(file, source)]


def edited(files: dict[str, str], planted: Sequence[Edit]) -> dict[str, str]:
    """Returns the files with mutations."""
    found = dict(files)
    for edit in sorted(planted, key=lambda edit: -edit.start):
        source = found[edit.file]
        found[edit.file] = source[: edit.start] + edit.text + source[edit.stop :]
    return found


def results(files: Mapping[str, str], calls: Sequence[str]) -> list[Any]:
    """Returns the results of calls, or texts that begin with "!" for errors.

    The files are those of this package or mutations of them. No program of an agent runs here.
    """
    modules: dict[str, types.ModuleType] = {}

    def importer(name: str, *_: object) -> types.ModuleType:
        if name not in modules:
            module = modules[name] = types.ModuleType(name)
            module.__dict__["__builtins__"] = {**vars(builtins), "__import__": importer}
            exec(compile(files[f"{name}.py"], f"{name}.py", "exec"), module.__dict__)
        return modules[name]

    found: list[Any] = []
    for call in calls:
        name = call.partition(".")[0]
        try:
            found.append(json.loads(json.dumps(eval(call, {name: importer(name)}))))
        except Exception as error:
            found.append(f"!{type(error).__name__}: {error}")
    return found


def _failing(files: dict[str, str], calls: Sequence[str], expected: list[Any]) -> list[int]:
    pairs = zip(results(files, calls), expected, strict=True)
    return [i for i, (one, other) in enumerate(pairs) if json.dumps(one) != json.dumps(other)]


def draw_bug(rng: random.Random, bugs: int) -> Bug:
    """Samples a program with bugs.

    Each bug alone changes the results of two calls or more, so that no special case for the failing
    test that is shown repairs the program.
    """
    programs = repositories()
    while True:
        number = rng.randrange(len(programs))
        calls = programs[number].calls
        goal = _filled(programs[number], rng)
        known = edits(goal)
        chosen = sorted(rng.sample(range(len(known)), bugs))
        planted = [known[i] for i in chosen]
        in_order = sorted(planted, key=lambda edit: (edit.file, edit.start))
        if any(a.stop > b.start for a, b in pairwise(in_order) if a.file == b.file):
            continue
        expected = results(goal, calls)
        if all(len(_failing(edited(goal, [edit]), calls, expected)) > 1 for edit in planted):
            files = edited(goal, planted)
            if failing := _failing(files, calls, expected):
                tests = [Call(call, result) for call, result in zip(calls, expected, strict=True)]
                return _bug(rng, (number, *chosen), goal, files, tests, failing)


def _bug(
    rng: random.Random,
    key: tuple[int, ...],
    goal: dict[str, str],
    files: dict[str, str],
    tests: list[Call],
    failing: list[int],
) -> Bug:
    first = rng.choice(failing)
    passing = [i for i in range(len(tests)) if i not in failing]
    public = [first, *sorted(rng.sample(passing, min(PUBLIC - 1, len(passing))))]
    (wrong,) = results(files, [tests[first].text])
    text = wrong[1:] if isinstance(wrong, str) and wrong.startswith("!") else repr(wrong)
    return Bug(key, goal, files, tuple(tests[i] for i in public), tuple(tests), text)


@lru_cache(maxsize=1024)
def bug_of(task: str, bugs: int) -> Bug:
    """Returns the program of a task. No mutation of a training task is one of a test task."""
    rng = random.Random(int(task_rng(task, f"bugs {bugs}").integers(2**63)))
    found: dict[tuple[int, ...], Bug] = {}

    def draw() -> tuple[int, ...]:
        bug = draw_bug(rng, bugs)
        return found.setdefault(bug.key, bug).key

    return found[draw_level(task, draw)]
