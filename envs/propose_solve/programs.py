"""`Programs`: the proposer writes a program with inputs, and solvers reason about it.

All programs, of proposers and of solvers, run in the sandbox. Results leave it through calls of a
function as JSON, so that printed text is never taken for a result. The sandbox has a fixed clock
and fixed random numbers, so that all programs are deterministic.
"""

from __future__ import annotations

import ast
import json
import secrets
from collections.abc import Callable
from typing import Any

import numpy as np

from agentgym.envs.code.judge import LIMITED, SUBSET
from agentgym.envs.propose_solve.domain import Domain, Problem
from agentgym.multiagent.rules import InvalidMove
from agentgym.sandbox import Limits, run_calls
from agentgym.tasks import draw_level, is_test_level, task_rng
from agentgym.utils.action_parsing import bare, program_of

LONGEST = 2000
"""Maximum number of characters of a program."""
LONGEST_VALUE = 300
"""Maximum number of characters of an input or output."""
PAIRS = 6
"""Inputs of an induction task. Solvers see the outputs of half of them."""
MARK = "input:"
RESULT = "_result"
"""Start of the name of the function that takes results out of the sandbox. Programs must not
contain it, and the rest is random in each run, so that none can make it up."""
_LIMITS = Limits(seconds=1, memory=64 << 20, output=1000)
TEMPLATES = (
    ("def f(x):\n    return {a} * x + {b}", "int"),
    ("def f(x):\n    return x * x - {a} * x + {b}", "int"),
    ("def f(x):\n    return [d * {a} for d in range({b}, {b} + x)]", "int"),
    ("def f(xs):\n    return sorted(xs)[::-1] + [len(xs) * {a}]", "list"),
    ("def f(xs):\n    return sum(x for x in xs if x > {a}) - {b}", "list"),
    ("def f(s):\n    return s[::-1] + s[:{a}]", "str"),
)
"""Programs of the scripted proposer, and the types of their inputs."""


class Refused(Exception):
    """A program has no results to compare. The message tells why."""


def results(program: str, inputs: list[Any]) -> list[str]:
    """Runs `f` of a program on inputs in the sandbox, and returns its outputs as JSON.

    Args:
        program: an untrusted program.
        inputs: the arguments of each call, lists of JSON values.

    Raises:
        Refused: if it fails or exceeds a limit.
    """
    name = f"{RESULT}_{secrets.token_hex(16)}"
    calls = "".join(f"{name}(f(*{arguments!r}))\n" for arguments in inputs)
    found = _run(f"{program}\n{calls}", name)
    if len(found) != len(inputs):
        raise Refused(f"f has {len(found)} results for {len(inputs)} inputs")
    if any(len(each) > LONGEST_VALUE for each in found):
        raise Refused(f"a result has more than {LONGEST_VALUE} characters")
    return found


def _run(code: str, name: str) -> list[str]:
    found: list[str] = []

    def result(args: list[Any], kwargs: dict[str, Any]) -> None:
        found.append(json.dumps(args, sort_keys=True))

    outcome, _ = run_calls((), code, {name: result}, limits=_LIMITS)
    if outcome.stopped or outcome.error:
        last = outcome.error.strip().rpartition("\n")[2]
        raise Refused(
            last.replace(name, RESULT)[:200] or f"it exceeds the limit of {outcome.stopped}"
        )
    return [written[1:-1] for written in found]


def split_proposal(proposal: str) -> tuple[str, list[list[Any]]]:
    """Returns the program of a proposal, and the arguments of its inputs.

    Raises:
        InvalidMove: if it has no function `f`, is too long, or an input is not a list of literals.
    """
    code = program_of(proposal, "f").replace("\r", "")
    program, marked = _without_inputs(code)
    marked = marked or _without_inputs(proposal)[1]
    if RESULT in program:
        raise InvalidMove(f"The name {RESULT} is not available.")
    if not program:
        raise InvalidMove("Write a function f, for example: def f(x): return x + 1")
    if len(program) > LONGEST:
        raise InvalidMove(f"The program must have at most {LONGEST} characters.")
    return program, [arguments_of(text) for text in marked]


def _without_inputs(text: str) -> tuple[str, list[str]]:
    """Returns a text without its lines of inputs, and the inputs."""
    lines = text.split("\n")
    marked = [line.strip()[len(MARK) :] for line in lines if line.strip().startswith(MARK)]
    return "\n".join(x for x in lines if not x.strip().startswith(MARK)).strip(), marked


def arguments_of(text: str) -> list[Any]:
    """Returns the arguments of a call, such as [3, "a"] for the text `3, "a"`.

    Raises:
        InvalidMove: if they are no literals that JSON can write.
    """
    try:
        if len(text) > LONGEST_VALUE:
            raise ValueError
        found = json.loads(json.dumps(ast.literal_eval(f"({text.strip()},)"), allow_nan=False))
        repr(found).encode()
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        raise InvalidMove(
            f"{text[:40]!r} is not an input. Write Python literals of at most {LONGEST_VALUE} "
            "characters, separated by commas, for example: 3, [1, 2]"
        ) from None
    return found


class Programs(Domain):
    """Deduction, abduction and induction about programs, as in Absolute Zero.

    - deduction: solvers read program and input, and find the output.
    - abduction: solvers read program and output, and find an input that leads to it.
    - induction: solvers read inputs with outputs, and write a program. It must also be right for
      inputs that they have not seen.
    """

    kinds = ("deduction", "abduction", "induction")

    def __init__(self) -> None:
        self.rules = (
            "A task is a Python program with a function f and its inputs.\n"
            "- deduction: the answer is the output of f.\n"
            "- abduction: the answer is an input that leads to the output.\n"
            "- induction: the answer is a program with a function f that has the outputs.\n"
            f"Inputs are Python literals, such as: 3, [1, 2]\n{SUBSET}{LIMITED}"
        )

    def asks(self, kind: str) -> str:
        """Returns the request to the proposer."""
        inputs = f"{PAIRS} lines" if kind == "induction" else "a line"
        return (
            f"Write a task of the kind {kind}: a program with a function f, and {inputs} that "
            f"begin{'s' * (kind != 'induction')} with `{MARK}`, for example:\n"
            f"def f(x):\n    return x + 1\n{MARK} 3"
        )

    def verify(self, kind: str, proposal: str, *, test: bool) -> Problem:
        """Returns the task of a proposal: see `Domain.verify`."""
        program, inputs = split_proposal(proposal)
        wanted = PAIRS if kind == "induction" else 1
        if len(inputs) != wanted:
            raise InvalidMove(f"Write {wanted} line(s) that begin with {MARK}, not {len(inputs)}.")
        try:
            outputs = results(program, inputs)
        except Refused as refused:
            raise InvalidMove(f"The program is refused: {refused}.") from None
        if kind == "induction" and len(set(outputs)) == 1:
            raise InvalidMove("The outputs must not all be equal.")
        if len({json.dumps(each, sort_keys=True) for each in inputs}) < len(inputs):
            raise InvalidMove("The inputs must differ.")
        shown = [f"input: {repr(each)[1:-1]}" for each in inputs]
        told = [repr(json.loads(each)) for each in outputs]
        size = len(program.split("\n"))
        unique = "\n".join([program, *shown])
        if not test and is_test_level(unique):
            raise InvalidMove("This task is reserved for tests. Write another one.")
        secret: dict[str, Any] = {"program": program, "inputs": inputs, "outputs": outputs}
        if kind == "induction":
            seen = PAIRS // 2
            pairs = zip(shown[:seen], told[:seen], strict=True)
            question = "\n".join(f"{given} output: {found}" for given, found in pairs)
            return Problem(unique, f"Write f:\n{question}", program, secret, size)
        if kind == "abduction":
            return Problem(
                unique, f"{program}\nFor which input is the output {told[0]}?",
                repr(inputs[0])[1:-1], secret, size,
            )  # fmt: skip
        question = f"{program}\nWhat is the output for {shown[0]}?"
        problem = Problem(unique, question, told[0], secret, size)
        if not self.right(kind, problem, told[0]):
            raise InvalidMove(f"The output {told[0][:40]} is no Python literal.")
        return problem

    def right(self, kind: str, problem: Problem, answer: str) -> bool:
        """Returns whether an answer is right. Programs of answers run in the sandbox."""
        secret = problem.secret
        try:
            if kind == "deduction":
                found = [json.dumps(arguments_of(bare(answer)), sort_keys=True)[1:-1]]
            elif kind == "abduction":
                found = results(secret["program"], [arguments_of(bare(answer))])
            else:
                program, _ = split_proposal(answer)
                found = results(program, secret["inputs"])
        except (InvalidMove, Refused):
            return False
        return found == secret["outputs"]

    def sample(self, task: str, kind: str, below: Callable[[int], int]) -> str:
        """Returns a program of a template with random numbers and inputs, of the task's split.

        Its text is the `Problem.proposal` that `verify` returns for it.
        """
        own = task_rng(task, f"programs {below(2**31)}")

        def draw() -> str:
            template, taken = TEMPLATES[int(own.integers(len(TEMPLATES)))]
            a, b = (int(number) for number in own.integers(2, 6, 2))
            inputs = [_input(taken, i, own) for i in range(PAIRS if kind == "induction" else 1)]
            return "\n".join([template.format(a=a, b=b), *(f"{MARK} {each!r}" for each in inputs)])

        return draw_level(task, draw)

    def guess(self, problem: Problem, rng: np.random.Generator) -> str:
        """Returns a random small number."""
        return str(int(rng.integers(10)))


def _input(kind: str, number: int, rng: np.random.Generator) -> Any:
    """Returns a random input of a type, which differs for different numbers."""
    if kind == "int":
        return number + 1 + PAIRS * int(rng.integers(2))
    if kind == "list":
        return [int(x) for x in rng.integers(0, 9, 3 + number)]
    return "".join("abcdefgh"[int(i)] for i in rng.integers(0, 8, 3 + number))
