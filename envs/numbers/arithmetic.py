"""Arithmetic: the value of an expression of integers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from agentgym.core import TextEnv
from agentgym.reading.expressions import parse_integer
from agentgym.tasks import Tasks, draw_level, task_draws
from agentgym.time_step import TimeStep
from agentgym.utils.action_parsing import command

OPERATORS = ("+", "-", "*")
Tree = int | tuple["Tree", str, "Tree"]


@dataclass
class State:
    """The expression and its value."""

    expression: str
    value: int


def value(tree: Tree) -> int:
    """Returns the value of an expression."""
    if isinstance(tree, int):
        return tree
    left, operator, right = value(tree[0]), tree[1], value(tree[2])
    return left + right if operator == "+" else left - right if operator == "-" else left * right


def text(tree: Tree) -> str:
    """Returns an expression with parentheses around inner operations."""
    if isinstance(tree, int):
        return str(tree)
    parts = [f"({text(t)})" if isinstance(t, tuple) else str(t) for t in (tree[0], tree[2])]
    return f"{parts[0]} {tree[1]} {parts[1]}"


def sample(below: Callable[[int], int], terms: int, largest: int) -> Tree:
    """Returns a random expression.

    Args:
        below: samples a number from 0 to its argument - 1, such as `Draws.below`.
        terms: number of numbers.
        largest: largest number.
    """
    if terms == 1:
        return 1 + below(largest)
    left = 1 + below(terms - 1)
    operator = OPERATORS[below(len(OPERATORS))]
    return sample(below, left, largest), operator, sample(below, terms - left, largest)


class Arithmetic(TextEnv):
    """Compute the value of an expression with + - * and parentheses.

    ## Description
    One question and one answer. The number of terms sets the difficulty.

    ## Action Space
    Text: an integer, such as `-12`.

    ## Observation Space
    Text: the expression.

    ## Rewards
    Term `task`: 1 for the right value, else 0. An invalid action costs `invalid_penalty`.

    ## Starting State
    The task, `train/N` or `test/N`, determines the expression.

    ## Episode End
    Termination: an integer is given. Truncation: after `max_turns` turns, which only answers that
    are no integers reach.

    ## Information
    The common keys. `progress`: 1 for the right value, else 0.

    ## Arguments
    - `terms` (int, default 3): number of terms, from 2 to 10.
    - `largest` (int, default 20): largest term, from 2 to 10**9.
    - `max_turns` (int or None, default 3): turns before truncation.

    ## References
    Countdown and arithmetic are the usual tasks of teams that generate, verify and refine an
    answer, as in MALT (arXiv 2412.01928). The expressions are our own.

    ## Version History
    v0: first version.
    """

    State = State
    state: State

    def __init__(self, *, terms: int = 3, largest: int = 20, max_turns: int | None = 3, **kwargs):
        if not 2 <= terms <= 10:
            raise ValueError(f"terms must be from 2 to 10, got {terms}.")
        if not 2 <= largest <= 10**9:
            raise ValueError(f"largest must be from 2 to 10**9, got {largest}.")
        super().__init__(max_turns=max_turns, **kwargs)
        self.terms, self.largest = terms, largest
        self.tasks = Tasks.generated()
        self.instructions = (
            "Compute the value of an expression.\n"
            "\n"
            "Rules:\n"
            "- * is multiplication. Operations in parentheses come first.\n"
            "- You have only one answer.\n"
            "\n"
            "Action: only the value, for example: -12\n"
            "\n"
            "Score: 1 if correct, else 0."
        )

    def _start(self, task: str) -> TimeStep:
        below = task_draws(task, "arithmetic").below

        def draw() -> State:
            tree = sample(below, self.terms, self.largest)
            return State(text(tree), value(tree))

        self.state = draw_level(task, draw)
        return TimeStep(f"{self.state.expression} = ?")

    def _advance(self, action: str) -> TimeStep:
        expression = self.state.expression
        given = parse_integer(command(action), expression)
        if given is None:
            return self._invalid("Answer with one integer, for example: -12")
        right = given == self.state.value
        # A wrong answer does not reveal the value, which another attempt could repeat.
        told = f"{expression} = {given}. Right!" if right else f"{expression} = ? {given} is wrong."
        return TimeStep(
            text=told,
            rewards={"task": float(right)},
            terminated=True,
            success=right,
            progress=float(right),
        )

    def expert(self) -> str | None:
        """Returns the value."""
        return str(self.state.value)
