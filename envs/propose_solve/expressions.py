"""`Expressions`: the proposer writes an arithmetic expression, and solvers compute its value."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

import numpy as np

from agentgym.envs.numbers.arithmetic import Tree, sample, text, value
from agentgym.envs.propose_solve.domain import Domain, Problem
from agentgym.errors import ConfigError
from agentgym.multiagent.rules import InvalidMove
from agentgym.reading import plain_operators
from agentgym.reading.expressions import parse_integer
from agentgym.tasks import draw_level, is_test_level
from agentgym.utils.action_parsing import command
from agentgym.utils.marks import undressed

OPERATORS: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}
_ASKED = re.compile(r"\s*=\s*\??$|[.?]$")
"""What may follow an expression, as in "3 + 4 = ?"."""
LONGEST = 100
LONGEST_TERM = 15
"""Characters of a number with its operator and parentheses, where there are many numbers."""


class Expressions(Domain):
    """Arithmetic expressions with + - * and parentheses.

    Args:
        terms: maximum number of numbers, from 2 to 10.
        largest: largest number, from 2 to 10**9.

    Raises:
        ConfigError: if an argument is out of range.
    """

    kinds = ("value",)

    def __init__(self, terms: int, largest: int):
        if not 2 <= terms <= 10:
            raise ConfigError(f"terms must be from 2 to 10, got {terms}.")
        if not 2 <= largest <= 10**9:
            raise ConfigError(f"largest must be from 2 to 10**9, got {largest}.")
        self.terms, self.largest = terms, largest
        self.rules = (
            f"A task is an expression of 2 to {terms} numbers from 1 to {largest} with + - * and "
            "parentheses. The answer is its value.\n"
        )

    def asks(self, kind: str) -> str:
        """Returns the request to the proposer."""
        return f"Write an expression, for example: {'2 * (1 + 2)' if self.terms > 2 else '1 + 2'}"

    def verify(self, kind: str, proposal: str, *, test: bool) -> Problem:
        """Returns the task of a proposal: see `Domain.verify`."""
        numbers: list[int] = []
        tree = self._tree(self._parsed(proposal), numbers)
        if not 2 <= len(numbers) <= self.terms:
            raise InvalidMove(
                f"The expression has {len(numbers)} numbers. Write 2 to {self.terms} numbers."
            )
        written = text(tree)
        if not test and is_test_level(written):
            raise InvalidMove(f"{written} is reserved for tests. Write another expression.")
        found = value(tree)
        return Problem(written, f"{written} = ?", str(found), {"value": str(found)}, len(numbers))

    def _tree(self, node: ast.expr, numbers: list[int]) -> Tree:
        """Returns the expression of a syntax tree, and adds its numbers to a list."""
        if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            left = self._tree(node.left, numbers)
            return left, OPERATORS[type(node.op)], self._tree(node.right, numbers)
        if isinstance(node, ast.Constant) and type(node.value) is int:
            if 1 <= node.value <= self.largest:
                numbers.append(node.value)
                return node.value
        raise InvalidMove(
            f"{ast.unparse(node)[:20]!r} is not allowed. Write numbers from 1 to {self.largest}, "
            "+ - * and parentheses."
        )

    def right(self, kind: str, problem: Problem, answer: str) -> bool:
        """Returns whether an answer is the value."""
        return parse_integer(command(answer), problem.proposal) == int(problem.secret["value"])

    def sample(self, task: str, kind: str, below: Callable[[int], int]) -> str:
        """Returns a random expression of the split of a task."""
        return draw_level(
            task, lambda: text(sample(below, 2 + below(self.terms - 1), self.largest))
        )

    def guess(self, problem: Problem, rng: np.random.Generator) -> str:
        """Returns a random number up to the largest one."""
        return str(int(rng.integers(1, self.largest + 1)))

    def _parsed(self, proposal: str) -> ast.expr:
        longest = max(LONGEST, LONGEST_TERM * self.terms)
        if len(proposal) > longest:
            raise InvalidMove(f"The expression must have at most {longest} characters.")
        try:
            asked = plain_operators(undressed(command(proposal)))
            return ast.parse(_ASKED.sub("", asked), mode="eval").body
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            raise InvalidMove(f"{proposal[:20]!r} is not an expression.") from None
