"""Grammars of actions, for the constrained decoding of other inference engines.

The regular expressions use groups, classes and repetitions only, which all engines support.
"""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, get_args

import gymnasium

from agentgym.core import TextEnv
from agentgym.errors import ConfigError
from agentgym.tools.calls import CLOSE, OPEN, CallFormat
from agentgym.tools.decorator import Tool
from agentgym.tools.env import ToolEnv, action_readers
from agentgym.tools.gbnf import to_gbnf

_INTEGER = r"-?(?:0|[1-9][0-9]{0,17})"
_NUMBER = _INTEGER + r"(?:\.[0-9]{1,20})?(?:[eE][+-]?[0-9]{1,2})?"
_TEXT = r"[^{<`(\s](?:[^{<`(]| \()*"
"""A message: no braces, tags, code marks, or parentheses behind a word, which begin a call."""


@dataclass(frozen=True)
class Grammar:
    """The well-formed actions of an environment.

    Attributes:
        regex: regular expression of a whole action.
        json_schema: JSON schema of a call, if a call is a JSON object and nothing else. It leaves
            out messages that are no calls.
    """

    regex: str
    json_schema: dict[str, Any] | None = None

    @property
    def gbnf(self) -> str:
        """The grammar of `regex` in GBNF, for llama.cpp (`grammar`) and engines with XGrammar."""
        return to_gbnf(self.regex)


class _Dialect(NamedTuple):
    """How values are written: strings (a regular expression), constants, and true, false, null."""

    string: str
    write: Callable[[Any], str]
    names: tuple[str, str, str]


def _string(quote: str, escape: str) -> str:
    """Returns the regular expression of a string in quotes."""
    return rf"{quote}(?:[^{quote}\\\x00-\x1f]|{escape})*{quote}"


_ESCAPE = r"\\(?:[\\'" + r'"nrt]|x[0-9a-f]{2}|u[0-9a-f]{4}|U(?:000[0-9a-f]|0010)[0-9a-f]{4})'
_JSON = _Dialect(
    _string('"', r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})'),
    lambda value: json.dumps(value, ensure_ascii=False),
    ("true", "false", "null"),
)
_PYTHON = _Dialect(
    f"(?:{_string(chr(39), _ESCAPE)}|{_string(chr(34), _ESCAPE)})", repr, ("True", "False", "None")
)


def action_grammar(
    source: gymnasium.Env[Any, Any] | Sequence[Tool] | Sequence[str],
    *,
    call_format: CallFormat | None = None,
) -> Grammar:
    """Returns the grammar of the actions of an environment, for constrained decoding.

    The regular expression accepts calls as `write_call` writes them, with one space after commas
    and colons and arguments in the order of the tool's parameters. Numbers have at most 18 digits
    before the point and 2 in the exponent. A value of any type is a scalar, or a list or an object
    of scalars.

    Args:
        source: an environment of tools, tools, an environment with admissible actions after its
            `reset`, or admissible actions such as `info["admissible"]`. Admissible actions change
            from turn to turn. In an environment that also reads messages, such as `Retail-v0`, the
            regular expression accepts a call or a message without braces.
        call_format: format of the calls. None: the environment's `call_format`, or "json".

    Raises:
        ConfigError: for an unknown format, no tools and no admissible actions, or a tool whose name
            cannot be written in Python.
    """
    if call_format not in (None, *get_args(CallFormat)):
        raise ConfigError(f"call_format must be in {get_args(CallFormat)}, got {call_format!r}.")
    message = ""
    if isinstance(source, gymnasium.Env):
        env: Any = source.unwrapped
        if not isinstance(env, TextEnv):
            raise ConfigError(f"action_grammar needs a text environment, got {source}.")
        _check_wrappers(source)
        source = () if env._last is None else env._last.admissible
        if isinstance(env, ToolEnv):
            source, call_format = [*env.tools.values()], call_format or env.call_format
            message = "|" + _TEXT if env.reads_messages else ""
    if isinstance(source, str) or not source:
        problem = "got none. Reset the environment first. An open set of actions has no grammar."
        raise ConfigError(f"action_grammar needs tools or admissible actions, {problem}")
    tools = [each for each in source if isinstance(each, Tool)]
    if not tools:
        return Grammar(_either(_literal(str(each)) for each in source))
    grammar = _calls(tools, call_format or "json")
    return Grammar(f"(?:{grammar.regex}{message})", grammar.json_schema)


def call_grammar(env: gymnasium.Env[Any, Any]) -> str | None:
    """Returns the regular expression of the actions of an environment of tools, None for others.

    Raises:
        ConfigError: if a wrapper reads actions of its own.
    """
    return action_grammar(env).regex if isinstance(env.unwrapped, ToolEnv) else None


def _check_wrappers(env: gymnasium.Env[Any, Any]) -> None:
    """Raises ConfigError if a wrapper of an environment reads actions of its own."""
    for reader, _ in action_readers(env):
        raise ConfigError(
            f"action_grammar needs the actions of {type(env.unwrapped).__name__}, but "
            f"{type(reader).__name__} reads actions of its own: leave out the wrapper, or "
            "`constrain` in training."
        )


def _calls(tools: Sequence[Tool], call_format: str) -> Grammar:
    """Returns the grammar of the calls of some tools."""
    if call_format == "python":
        for tool in tools:
            if not tool.name.isidentifier() or keyword.iskeyword(tool.name):
                raise ConfigError(f"The tool {tool.name!r} has no name of a Python function.")
        fields = [_members(tool.parameters, "{}=".format, _PYTHON) for tool in tools]
        return Grammar(_either(rf"{t.name}\({f}\)" for t, f in zip(tools, fields, strict=True)))
    key = "parameters" if call_format == "llama_call" else "arguments"
    calls = [
        {
            "type": "object",
            "properties": {"name": {"enum": [tool.name]}, key: tool.parameters},
            "required": ["name", key],
            "additionalProperties": False,
        }
        for tool in tools
    ]
    regex = _pattern({"anyOf": calls}, _JSON)
    if call_format == "tool_call":
        return Grammar(f"{OPEN}\n{regex}\n{CLOSE}")
    return Grammar(regex, {"anyOf": calls})


def _pattern(schema: Any, dialect: _Dialect, flat: bool = False) -> str:
    """Returns the regular expression of the values of a JSON schema.

    True and {} accept a value of any type. With `flat`, it is neither a list nor an object.
    """
    schema = schema if isinstance(schema, Mapping) else {}
    true, false, null = dialect.names
    scalars = {"string": dialect.string, "integer": _INTEGER, "number": _NUMBER}
    scalars |= {"boolean": f"(?:{true}|{false})", "null": null}
    kind = schema.get("type")
    if "enum" in schema:
        return _either(_literal(dialect.write(value)) for value in schema["enum"])
    if "const" in schema:
        return _literal(dialect.write(schema["const"]))
    if isinstance(kind, list):
        return _either(_pattern({**schema, "type": each}, dialect, flat) for each in kind)
    if "anyOf" in schema:
        return _either(_pattern(each, dialect, flat) for each in schema["anyOf"])
    if kind in scalars:
        return scalars[kind]
    if kind == "array":
        return rf"\[{_repeated(_pattern(schema.get('items'), dialect, flat))}\]"
    if "properties" in schema:
        key = lambda name: f"{_literal(dialect.write(name))}: "  # noqa: E731
        return rf"\{{{_members(schema, key, dialect, flat)}\}}"
    if kind == "object":
        value = _pattern(schema.get("additionalProperties"), dialect, flat)
        return rf"\{{{_repeated(f'{dialect.string}: {value}')}\}}"
    nested = ({"type": "array", "items": {}}, {"type": "object", "additionalProperties": {}})
    return _either([*scalars.values(), *(_pattern(x, dialect, True) for x in nested * (not flat))])


def _literal(text: str) -> str:
    """Returns the regular expression of a text. Engines do not know all escapes of `re.escape`."""
    return re.sub(r"[\\.^$|?*+()\[\]{}]", r"\\\g<0>", text)


def _either(patterns: Iterable[str]) -> str:
    return f"(?:{'|'.join(patterns)})"


def _repeated(pattern: str) -> str:
    """Returns the regular expression of any number of entries."""
    return f"(?:{pattern}(?:, {pattern})*)?"


def _members(
    schema: Mapping[str, Any], key: Callable[[str], str], dialect: _Dialect, flat: bool = False
) -> str:
    """Returns the regular expression of the fields of an object, of which some can be missing."""
    rest, first = "", ""  # of the fields from here on, after another one, and as the first ones
    for name, value in reversed(schema["properties"].items()):
        field = key(name) + _pattern(value, dialect, flat)
        if name in schema.get("required", ()):
            rest, first = f", {field}{rest}", f"{field}{rest}"
        else:
            first = f"(?:{field}{rest}|{first})" if first else f"(?:{field}{rest})?"
            rest = f"(?:, {field})?{rest}"
    return first
