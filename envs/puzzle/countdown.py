"""Countdown: make a target number from given numbers, each used once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import combinations

from agentgym.core import TextEnv, TurnLimit
from agentgym.errors import ConfigError
from agentgym.reading import NotUnderstood, final_answer
from agentgym.reading.expressions import plain_expression
from agentgym.tasks import Tasks, task_rng
from agentgym.time_step import TimeStep
from agentgym.utils.action_parsing import command
from agentgym.utils.marks import undressed

OPERATORS = "+-*/"
LARGEST = 99
"""The largest given number."""
TARGETS = range(10, 1000)
LONGEST = 100
"""Maximum number of characters of an answer."""
TOKEN = re.compile(r"[0-9]{1,9}|[-+*/()]")
NUMBER = re.compile(r"[0-9]+")
SIGNS = re.compile(r"[-+*/() 0-9]{1,100}")
USUAL = re.compile(r"[-(0-9][-+*/() 0-9]{0,98}[)0-9]")
DIGIT = re.compile(r"\d")
STEP = re.compile(r"\(*\s*([0-9]{1,20})\)?\s*([-+*/])\s*\(?([0-9]{1,20})\s*\)*")

Step = tuple[int, str, int]


@dataclass
class State:
    """The numbers left, in ascending order, their initial count, and the target."""

    numbers: tuple[int, ...]
    given: int
    target: int


def results(a: int, b: int) -> Iterator[tuple[str, int]]:
    """Yields the operators that give a non-negative integer for a >= b, with their results."""
    yield "+", a + b
    yield "-", a - b
    yield "*", a * b
    if b and a % b == 0:
        yield "/", a // b


def steps(numbers: tuple[int, ...]) -> Iterator[tuple[Step, tuple[int, ...]]]:
    """Yields all operations on two numbers with the numbers left, in ascending order."""
    for i, j in combinations(range(len(numbers)), 2):
        rest = (*numbers[:i], *numbers[i + 1 : j], *numbers[j + 1 :])
        for operator, result in results(numbers[j], numbers[i]):
            yield (numbers[j], operator, numbers[i]), tuple(sorted((*rest, result)))


@lru_cache(maxsize=100_000)
def solve(numbers: tuple[int, ...], target: int) -> tuple[Step, ...] | None:
    """Returns operations that make the target from all numbers (in ascending order), or None.

    All intermediate results are non-negative integers.
    """
    if len(numbers) == 1:
        return () if numbers[0] == target else None
    for step, left in steps(numbers):
        rest = solve(left, target)
        if rest is not None:
            return (step, *rest)
    return None


def expression(solution: tuple[Step, ...]) -> str:
    """Returns the steps of a solution as one expression."""
    made: dict[int, list[str]] = {}

    def text(number: int) -> str:
        return made[number].pop() if made.get(number) else str(number)

    last = ""
    for a, operator, b in solution:
        last = f"{text(a)} {operator} {text(b)}"
        made.setdefault(dict(results(a, b))[operator], []).append(f"({last})")
    return last


def value(text: str) -> Fraction | None:
    """Returns the value of an expression of integers, + - * / and parentheses.

    Returns None if the expression is malformed or divides by 0.
    """
    if len(text) > LONGEST:
        return None
    tokens = TOKEN.findall(text)[::-1]
    if len("".join(tokens)) != len("".join(text.split())):
        return None
    try:
        result = _sum(tokens)
    except (IndexError, ValueError, ZeroDivisionError):
        return None
    return None if tokens else result


# Recursive descent. Tokens are in reverse order and consumed from the end.
def _sum(tokens: list[str]) -> Fraction:
    result = _product(tokens)
    while tokens and tokens[-1] in "+-":
        sign = 1 if tokens.pop() == "+" else -1
        result += sign * _product(tokens)
    return result


def _product(tokens: list[str]) -> Fraction:
    result = _factor(tokens)
    while tokens and tokens[-1] in "*/":
        if tokens.pop() == "*":
            result *= _factor(tokens)
        else:
            result /= _factor(tokens)
    return result


def _factor(tokens: list[str]) -> Fraction:
    token, sign = tokens.pop(), 1
    while token in "+-":
        sign = -sign if token == "-" else sign
        token = tokens.pop()
    if token == "(":
        result = _sum(tokens)
        if tokens.pop() != ")":
            raise ValueError("expected )")
        return sign * result
    return Fraction(sign * int(token))


def readable(action: str) -> str:
    """Returns the expression of an answer in a plain form, or "" if it is too long or unclear."""
    if USUAL.fullmatch(action):
        return action
    if not DIGIT.search(action):
        return ""
    try:
        answer = plain_expression(final_answer(undressed(command(action))))
    except NotUnderstood:
        return ""
    return answer if len(answer) <= LONGEST else ""


def expression_of(equation: str) -> str:
    """Returns the side of an equation that is not only a number.

    A text without an equals sign is returned as it is. The result is "" if the equation is not
    true, or has two such sides, as in "94 - 10 = 7 * 12".
    """
    if "=" not in equation:
        return equation
    sides = [side.strip() for side in equation.split("=")]
    if len({value(side) for side in sides}) > 1 or value(sides[0]) is None:
        return ""
    found = [side for side in sides if not NUMBER.fullmatch(side)] or sides[:1]
    return found[0] if len(found) == 1 else ""


def generate(task: str, count: int, operators: str) -> State:
    """Returns the numbers and the target of a task. The operators suffice to make the target."""
    rng = task_rng(task, "countdown")
    while True:
        numbers = left = tuple(sorted(map(int, rng.integers(1, LARGEST + 1, size=count))))
        for _ in range(count - 1):
            ways = [(step, then) for step, then in steps(left) if step[1] in operators]
            # Sample the operator first, otherwise most operations would be sums.
            operator = sorted({step[1] for step, _ in ways})
            chosen = operator[int(rng.integers(len(operator)))]
            thens = [then for step, then in ways if step[1] == chosen]
            left = thens[int(rng.integers(len(thens)))]
        if left[0] in TARGETS:
            return State(numbers, count, left[0])


class Countdown(TextEnv):
    r"""Make a target number from given numbers with + - * /, using each number exactly once.

    ## Description
    The numbers game in the form of RAGEN: one answer, an expression of all numbers. With `steps`,
    the game is played in turns: each turn replaces two numbers by the result of an operation.

    ## Action Space
    Text: an expression, such as `(3 + 7) * 5 - 2`. Other usual signs are read, too: `×`, `÷`, `−`,
    brackets, LaTeX, `\boxed{}` and "Answer:". With `steps`: one operation on two of the
    numbers, such as `7 + 3`, whose result is a non-negative integer and may be named: `7 + 3 = 10`.

    ## Observation Space
    Text: the numbers (left) and the target.

    ## Rewards
    - `task`: 1 if the expression uses each number once and equals the target.
    - `format`: 0.1 if it only uses each number once (even if it is malformed, as in RAGEN).

    With `steps`: `task` is 1 if the last number is the target.

    ## Starting State
    The task determines the numbers, from 1 to 99, and the target, from 10 to 999. The target is the
    result of a random combination of the numbers with `operators`.

    ## Episode End
    Termination: an answer is given, or, with `steps`, one number is left. Truncation: after
    `max_turns`.

    ## Information
    The common keys.

    - `admissible`: with `steps`, all legal operations.
    - `progress`: 1 minus the relative distance from the target, if each number is used once. With
      `steps`, the share of operations done while the target is still reachable, else 0.

    ## Arguments
    - `numbers` (int, default 4): number of given numbers, from 3 to 5.
    - `operators` (str, default "+-"): operators used to generate targets, "+-" (as in RAGEN) up to
      "+-*/", not "/" alone, nor "*" alone with 5 numbers. Answers may use all four.
    - `steps` (bool, default False): play in turns.
    - `max_turns` (int, default 3, with `steps` twice the number of operations): turns before
      truncation. Malformed answers can be repeated.

    ## References
    RAGEN (arXiv 2504.20073): rewards, one answer, targets made with + and -. RAGEN uses the numbers
    and targets of TinyZero's data set, and these are generated. RAGEN evaluates answers as Python,
    so `**` is valid there. The expert searches all combinations.

    ## Version History
    v0: first version.
    """

    State = State
    reward_names = ("task", "format")

    def __init__(
        self,
        *,
        numbers: int = 4,
        operators: str = "+-",
        steps: bool = False,
        max_turns: TurnLimit = "auto",
        **kwargs,
    ):
        if not 3 <= numbers <= 5:
            raise ValueError(f"numbers must be 3, 4 or 5, got {numbers}.")
        if not operators or not set(operators) <= set(OPERATORS) or set(operators) == {"/"}:
            raise ValueError(f"operators must be some of '+-*/', not / alone, got {operators!r}.")
        if numbers == 5 and set(operators) == {"*"}:
            raise ConfigError(
                f"5 numbers need another operator than *, since hardly any products of 5 numbers "
                f"are at most {TARGETS[-1]}, got operators={operators!r}. Give fewer numbers or "
                "more operators."
            )
        usual = 2 * (numbers - 1) if steps else 3
        super().__init__(max_turns=usual if max_turns == "auto" else max_turns, **kwargs)
        self.count, self.operators, self.steps = numbers, operators, steps
        self.tasks = Tasks.generated()
        goal = "Make the target number from the given numbers.\n\nRules:\n"
        if steps:
            self.instructions = goal + (
                "- Each turn, combine two of the numbers with + - * or /. The result replaces "
                "them.\n"
                "- The result must be a whole number and not negative.\n"
                "- You must use all numbers. At the end, only the target may be left.\n"
                "\n"
                "Action: only one operation, for example: 7 + 3\n"
                "\n"
                "Score: 1 if the last number is the target, else 0."
            )
        else:
            self.instructions = goal + (
                "- Use each number exactly once.\n"
                "- You can use + - * / and parentheses.\n"
                "- You have only one answer.\n"
                "\n"
                "Action: only the expression, for example: (3 + 7) * 5 - 2\n"
                "\n"
                "Score: 1 if correct, 0.1 if wrong but each number is used exactly once, else 0."
            )

    def _start(self, task: str) -> TimeStep:
        self.state = generate(task, self.count, self.operators)
        return self._look() if self.steps else TimeStep(self._question())

    def _question(self) -> str:
        state = self.state
        return f"Numbers: {', '.join(map(str, state.numbers))}. Target: {state.target}."

    def _advance(self, action: str) -> TimeStep:
        return self._combine(action) if self.steps else self._answer(action)

    def _answer(self, action: str) -> TimeStep:
        answer, state = readable(action), self.state
        result = value(answer)
        found = map(int, NUMBER.findall(answer)) if SIGNS.fullmatch(answer) else []
        formatted = tuple(sorted(found)) == state.numbers
        if result is None and not formatted:
            hint = " Leave out = and the result." if "=" in answer else ""
            return self._invalid(
                "Answer with one expression of numbers, + - * / and parentheses, for example: "
                f"(3 + 7) * 5 - 2{hint}"
            )
        right = formatted and result == state.target
        if right:
            said = f"{answer} = {state.target}. Right!"
        elif not formatted:
            said = f"Use each number exactly once: {', '.join(map(str, state.numbers))}."
        elif result is None:
            said = "This expression has no value."
        else:
            said = f"{answer} = {result}, not {state.target}."
        off = 1.0 if result is None else float(abs(result - state.target) / state.target)
        return TimeStep(
            text=f"{self._question()} {said}",
            rewards={"task": float(right), "format": 0.1 * (formatted and not right)},
            terminated=True,
            success=right,
            progress=max(0.0, 1 - off) if formatted else 0.0,
        )

    def _combine(self, action: str) -> TimeStep:
        match = STEP.fullmatch(expression_of(readable(action)))
        if match is None:
            return self._invalid("Combine two of the numbers, for example: 7 + 3")
        a, operator, b = int(match[1]), match[2], int(match[3])
        left = list(self.state.numbers)
        for number in (a, b):
            if number not in left:
                return self._invalid(f"There is no {number} left.")
            left.remove(number)
        if operator in "+*":
            a, b = max(a, b), min(a, b)
        result = dict(results(a, b)).get(operator) if a >= b else None
        if result is None:
            return self._invalid(f"{a} {operator} {b} is negative or not whole.")
        self.state.numbers = tuple(sorted((*left, result)))
        return self._look()

    def _look(self) -> TimeStep:
        state = self.state
        over = len(state.numbers) == 1
        right = over and state.numbers[0] == state.target
        reachable = solve(state.numbers, state.target) is not None
        done = (state.given - len(state.numbers)) / (state.given - 1)
        ways = [f"{a} {o} {b}" for (a, o, b), _ in steps(state.numbers)]
        return TimeStep(
            text=self._question() + " Right!" * right,
            rewards={"task": float(right)},
            terminated=over,
            success=right,
            progress=done if reachable else 0.0,
            admissible=tuple(dict.fromkeys(ways)),
        )

    def expert(self) -> str | None:
        """Returns a correct answer or the next operation, or None if there is none."""
        solution = solve(self.state.numbers, self.state.target)
        if not solution:
            return None
        a, operator, b = solution[0]
        return f"{a} {operator} {b}" if self.steps else expression(solution)
