"""Generated problems of arithmetic whose answer is an integer, with programs that solve them."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from agentgym.tasks import draw_level, task_rng


@dataclass(frozen=True)
class Problem:
    """A problem.

    Attributes:
        text: the question.
        setup: a program that defines functions and data.
        result: an expression for the answer, evaluated after `setup`.
    """

    text: str
    setup: str
    result: str

    @property
    def answer(self) -> int:
        """The answer."""
        scope: dict[str, Any] = {}
        exec(self.setup, scope)  # a program of this module, not of an agent
        return eval(self.result, scope)


def _divisible(rng: random.Random) -> Problem:
    a, b, c = rng.sample(range(2, 14), 3)
    n = rng.randint(500, 5000)
    return Problem(
        f"How many integers from 1 to {n} are divisible by {a} or {b}, but not by {c}?",
        f"def good(n):\n    return (n % {a} == 0 or n % {b} == 0) and n % {c} != 0",
        f"sum(1 for n in range(1, {n} + 1) if good(n))",
    )


def _primes(rng: random.Random) -> Problem:
    low = rng.randint(50, 900)
    high = low + rng.randint(100, 400)
    kind, value = rng.choice((("sum", "n"), ("number", "1")))
    return Problem(
        f"What is the {kind} of the primes from {low} to {high}?",
        "def prime(n):\n    return n > 1 and all(n % d for d in range(2, int(n ** 0.5) + 1))",
        f"sum({value} for n in range({low}, {high} + 1) if prime(n))",
    )


def _power(rng: random.Random) -> Problem:
    a, b, c, d = (rng.randint(3, 99), rng.randint(20, 99), rng.randint(3, 99), rng.randint(20, 99))
    digits = rng.randint(4, 7)
    return Problem(
        f"What is the remainder of {a}^{b} + {c}^{d} on division by {10**digits}?",
        f"total = {a} ** {b} + {c} ** {d}",
        f"total % {10**digits}",
    )


def _digits(rng: random.Random) -> Problem:
    a, b = rng.randint(3, 99), rng.randint(20, 90)
    return Problem(
        f"What is the sum of the decimal digits of {a}^{b}?",
        f"number = {a} ** {b}",
        "sum(int(c) for c in str(number))",
    )


def _pairs(rng: random.Random) -> Problem:
    n, k, r = rng.randint(20, 60), rng.randint(3, 11), rng.randint(0, 2)
    return Problem(
        f"For how many pairs of integers x and y from 1 to {n} does x*y + x + y leave the "
        f"remainder {r} on division by {k}?",
        f"pairs = [(x, y) for x in range(1, {n} + 1) for y in range(1, {n} + 1)]",
        f"sum(1 for x, y in pairs if (x * y + x + y) % {k} == {r})",
    )


def _smallest(rng: random.Random) -> Problem:
    k, n = rng.randint(7, 40), rng.randint(200, 2000)
    s = sum(map(int, str(k * rng.randint(n // k + 5, n // k + 100))))
    return Problem(
        f"What is the smallest integer greater than {n} that is divisible by {k} and has the "
        f"decimal digit sum {s}?",
        "def digits(n):\n    return sum(int(c) for c in str(n))",
        f"min(n for n in range({n} + 1, {n} + {k} * 110) if n % {k} == 0 and digits(n) == {s})",
    )


def _collatz(rng: random.Random) -> Problem:
    n = rng.randint(100, 3000)
    return Problem(
        f"Start with {n}. In each step, halve an even number, and replace an odd number n by "
        "3n + 1. After how many steps is the number 1 reached for the first time?",
        f"n, steps = {n}, 0\nwhile n != 1:\n    n = n // 2 if n % 2 == 0 else 3 * n + 1\n"
        "    steps += 1",
        "steps",
    )


def _paths(rng: random.Random) -> Problem:
    m, n = rng.randint(4, 9), rng.randint(4, 9)
    cells = [(x, y) for x in range(m + 1) for y in range(n + 1)][1:-1]
    walls = sorted(rng.sample(cells, 3))
    listed = ", ".join(map(str, walls))
    return Problem(
        f"How many paths lead from (0, 0) to ({m}, {n}) with steps of 1 to the right or upwards, "
        f"without visiting the points {listed}?",
        f"walls = {walls}\nways = {{(0, 0): 1}}\n"
        f"for x in range({m} + 1):\n    for y in range({n} + 1):\n"
        "        if (x, y) != (0, 0):\n"
        "            total = ways.get((x - 1, y), 0) + ways.get((x, y - 1), 0)\n"
        "            ways[(x, y)] = 0 if (x, y) in walls else total",
        f"ways[({m}, {n})]",
    )


def _subsets(rng: random.Random) -> Problem:
    numbers = sorted(rng.sample(range(2, 40), rng.randint(8, 11)))
    target = sum(rng.sample(numbers, len(numbers) // 2))
    return Problem(
        f"How many subsets of {{{', '.join(map(str, numbers))}}} have the sum {target}?",
        f"ways = {{0: 1}}\nfor number in {numbers}:\n    new = dict(ways)\n"
        "    for total, count in ways.items():\n"
        "        new[total + number] = new.get(total + number, 0) + count\n    ways = new",
        f"ways[{target}]",
    )


def _recurrence(rng: random.Random) -> Problem:
    a, b, p, q = (rng.randint(1, 9) for _ in range(4))
    n, m = rng.randint(30, 200), rng.choice((997, 1000, 9973, 10007))
    return Problem(
        f"A sequence begins with a(1) = {a} and a(2) = {b}. After that, "
        f"a(n) = {p}*a(n-1) + {q}*a(n-2). What is the remainder of a({n}) on division by {m}?",
        f"a = [0, {a}, {b}]\nfor n in range(3, {n} + 1):\n"
        f"    a.append(({p} * a[-1] + {q} * a[-2]) % {m})",
        f"a[{n}] % {m}",
    )


def _saving(rng: random.Random) -> Problem:
    start, rate, more = rng.randint(200, 2000), rng.randint(2, 9), rng.randint(10, 90)
    goal = start * rng.randint(3, 9)
    return Problem(
        f"An account holds {start} coins. At the end of each year it grows by {rate} percent, "
        f"rounded down to whole coins, and then {more} coins are added. After how many years does "
        f"it hold at least {goal} coins?",
        f"coins, years = {start}, 0\nwhile coins < {goal}:\n"
        f"    coins += coins * {rate} // 100 + {more}\n    years += 1",
        "years",
    )


def _gcds(rng: random.Random) -> Problem:
    n, k = rng.randint(60, 600), rng.randint(2, 9)
    return Problem(
        f"What is the sum of the greatest common divisors of {n} and i, for all i from 1 to {n} "
        f"that are not divisible by {k}?",
        f"import math\nvalues = [math.gcd({n}, i) for i in range(1, {n} + 1) if i % {k}]",
        "sum(values)",
    )


def _divisors(rng: random.Random) -> Problem:
    low, count = rng.randint(10, 300), rng.choice((4, 6, 8))
    high = low + rng.randint(100, 300)
    return Problem(
        f"How many integers from {low} to {high} have exactly {count} divisors?",
        "def divisors(n):\n    return sum(1 for d in range(1, n + 1) if n % d == 0)",
        f"sum(1 for n in range({low}, {high} + 1) if divisors(n) == {count})",
    )


def _orders(rng: random.Random) -> Problem:
    n = rng.randint(5, 7)
    a, b = rng.sample(range(1, n + 1), 2)
    return Problem(
        f"In how many orders can the integers from 1 to {n} be arranged if neighbours differ by at "
        f"least 2 and {a} comes somewhere before {b}?",
        f"import itertools\norders = list(itertools.permutations(range(1, {n} + 1)))",
        f"sum(1 for o in orders if o.index({a}) < o.index({b})"
        f" and all(abs(x - y) >= 2 for x, y in zip(o, o[1:])))",
    )


FORMS: tuple[Callable[[random.Random], Problem], ...] = (
    *(_divisible, _primes, _power, _digits, _pairs, _smallest, _collatz, _paths, _subsets),
    *(_recurrence, _saving, _gcds, _divisors, _orders),
)


@lru_cache(maxsize=4096)
def problem_of(task: str) -> tuple[Problem, int]:
    """Returns the problem of a task and its answer. No training problem is a test problem."""
    rng = random.Random(int(task_rng(task, "problem").integers(2**63)))
    form = rng.choice(FORMS)
    found: dict[str, Problem] = {}

    def draw() -> str:
        problem = form(rng)
        return found.setdefault(problem.text, problem).text

    problem = found[draw_level(task, draw)]
    return problem, problem.answer
