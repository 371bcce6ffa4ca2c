"""A calculator for arithmetic expressions."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable

from agentgym.tools import ToolError

_OPERATORS: dict[type, Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def evaluate(expression: str) -> float:
    """Returns the value of an arithmetic expression.

    Raises:
        ToolError: for another expression.
    """
    if any(char not in "0123456789+-*/(). " for char in expression):
        raise ToolError("invalid characters in expression")
    if len(expression) > 200:
        raise ToolError("the expression is too long")
    try:
        return _value(ast.parse(expression.strip(), mode="eval").body)
    except (SyntaxError, ValueError, ArithmeticError, RecursionError, KeyError) as error:
        raise ToolError("the expression is not valid") from error


def _value(node: ast.AST) -> float:
    if isinstance(node, ast.BinOp):
        return _OPERATORS[type(node.op)](_value(node.left), _value(node.right))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        value = _value(node.operand)
        return -value if isinstance(node.op, ast.USub) else value
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return float(node.value)
    raise ValueError(node)
