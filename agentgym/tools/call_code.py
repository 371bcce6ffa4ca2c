"""Calls of tools as Python code: `search(query="shoes")`, also printed or assigned."""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Mapping
from typing import Any

from agentgym.reading.errors import NotUnderstood
from agentgym.reading.loose_json import too_deep
from agentgym.reading.typography import normalized_code
from agentgym.tools.call_objects import MAX_DEPTH, SEVERAL, Call, Signatures

FINAL = "final_answer"
"""The function with which programs of smolagents end."""
LONGEST_SPAN = 20_000
"""Maximum number of characters of a call in prose."""
WHOLE = re.compile(r"\[?\s*(?:print\s*\(\s*|await )?[A-Za-z_][\w.]*\(.*\)\s*[\]);]{0,3}", re.DOTALL)
"""A text that is a call, or a list with one."""
_SPACES = ("functions", "tools", "default_api", "api", "tool_code")
_CONSTANTS = {"true": True, "false": False, "null": None}
_TOKEN = re.compile(
    r"\"{3}(?:\\.|[^\\]){0,20000}?\"{3}|'{3}(?:\\.|[^\\]){0,20000}?'{3}"
    r"|\"(?:\\.|[^\"\\\n]){0,20000}\"|'(?:\\.|[^'\\\n]){0,20000}'|[()\[\]{}]",
    re.DOTALL,
)


class NoCall(Exception):
    """A program without a call that could be meant."""


def call_stop(text: str, start: int) -> int:
    """Returns the index behind the parenthesis that closes a call, or -1.

    Args:
        text: a text.
        start: index of the opening parenthesis.
    """
    depth = 0
    for match in _TOKEN.finditer(text, start, start + LONGEST_SPAN):
        depth += (match[0] in "([{") - (match[0] in ")]}")
        if depth == 0:
            return match.end()
    return -1


def read_code(code: str, tools: Signatures | None = None) -> Call:
    """Returns the only call of a program.

    The program calls the tool, prints the call, or assigns it and prints the result. Arguments are
    literals, by name, or by position if the tool is known.

    Raises:
        NoCall: if the program has no call of a tool, or, without known tools, none of this form.
        NotUnderstood: with the reason, a sentence, for several calls and other code around a call.
    """
    body = _parsed(code)
    if body is None or any(isinstance(s, ast.AnnAssign) and s.value is None for s in body):
        raise NoCall  # "Action: search(...)" is a label and a call, not an annotation
    if len(body) == 1 and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.List):
        nodes = list(body[0].value.elts)  # the list of Llama 4
    else:
        nodes = [_called(statement) for statement in body]
    found = [node for node in nodes if node is not None]
    named = [each for each in ast.walk(ast.Module(body, [])) if isinstance(each, ast.Call)]
    named = [call for call in named if (_name(call) or "print") != "print"]
    if tools is not None:
        known = [call for call in named if _name(call) in tools or _name(call) == FINAL]
        if named and not known:
            return read_code(code)  # a call of an unknown tool
        named = known
    if not named or not found:
        if named and tools is not None:
            raise NotUnderstood(_unclear(_name(named[0])))
        raise NoCall
    if len(found) > 1 or len(named) > 1:
        if tools is None and any(_arguments(node, []) is None for node in found):
            raise NoCall
        raise NotUnderstood(SEVERAL)
    call = found[0]
    name = _name(call)
    schemas = (tools or {}).get(str(name)) or {}
    arguments = _named_in_object(call, schemas) or _arguments(call, [*schemas])
    if name is None or arguments is None or call is not named[0]:
        if tools is None:
            raise NoCall
        raise NotUnderstood(_unclear(_name(named[0])))
    return Call(name, arguments)


def _unclear(name: str | None) -> str:
    shown = str(name)[:40]
    return (
        f"The call of {shown} is not clear. Expected nothing but one call with literal arguments "
        f"by name, such as {shown}(argument=1)."
    )


def _parsed(code: str) -> list[ast.stmt] | None:
    """Returns the statements of a program, whose quotes can be typographic. None if it is none."""
    for text in dict.fromkeys((code, normalized_code(code))):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return ast.parse(text).body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
    return None


def _called(statement: ast.stmt) -> Any:
    """Returns the node that a statement calls, without print() and assignment around it.

    None for a statement without effect: a comment, a constant, or the print of a variable.
    """
    if not isinstance(statement, ast.Expr | ast.Assign | ast.AnnAssign):
        return statement
    node: Any = statement.value
    if isinstance(node, ast.Call) and _name(node) == "print" and len(node.args) == 1:
        node = node.args[0]
        if isinstance(node, ast.Name | ast.Constant):
            return None
    if isinstance(node, ast.Await):
        node = node.value
    return None if isinstance(node, ast.Constant | ast.Name) else node


def _name(node: Any) -> str | None:
    """Returns the name of a called function, without a module such as `functions.`."""
    function = node.func if isinstance(node, ast.Call) else None
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
        if function.attr == "call":  # search.call(query="x") of Llama 3
            return function.value.id
        return function.attr if function.value.id in _SPACES else None
    return function.id if isinstance(function, ast.Name) else None


def _arguments(node: Any, positional: list[str]) -> dict[str, Any] | None:
    """Returns the literal arguments of a call by name, or None if they are not clear."""
    if not isinstance(node, ast.Call) or _name(node) is None:
        return None
    if len(node.args) > len(positional) or any(word.arg is None for word in node.keywords):
        return None
    pairs = [*zip(positional, node.args, strict=False)]
    pairs += [(str(word.arg), word.value) for word in node.keywords]
    if len({name for name, _ in pairs}) < len(pairs):
        return None
    try:
        values = {name: _literal(value) for name, value in pairs}
        values = json.loads(json.dumps(values, allow_nan=False))
    except NotUnderstood:
        raise
    except (ValueError, TypeError, RecursionError, MemoryError):
        return None
    return None if too_deep(values, MAX_DEPTH) else values


def _named_in_object(node: Any, schemas: Mapping[str, Any]) -> dict[str, Any] | None:
    """Returns the arguments of `f({"x": 1})`, the only positional one, or None if it has others."""
    if not isinstance(node, ast.Call) or len(node.args) != 1 or node.keywords:
        return None
    (value,) = node.args
    keys = [getattr(key, "value", None) for key in getattr(value, "keys", [])]
    if not isinstance(value, ast.Dict) or not keys or not all(key in schemas for key in keys):
        return None
    return (_arguments(ast.Call(node.func, node.args, []), [""]) or {}).get("")


def _literal(node: ast.expr) -> Any:
    """Returns the value of a literal, in which the constants of JSON are known."""
    for each in ast.walk(node):
        if isinstance(each, ast.Dict):
            keys = [ast.unparse(key) for key in each.keys if key is not None]
            if len(set(keys)) < len(each.keys):
                raise NotUnderstood("The tool call is not valid: a key is given twice.")
        if isinstance(each, ast.Set):
            raise ValueError("a set is no JSON value")
    return ast.literal_eval(_Constants().visit(node))


class _Constants(ast.NodeTransformer):
    """Replaces true, false and null."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Constant(_CONSTANTS[node.id]) if node.id in _CONSTANTS else node
