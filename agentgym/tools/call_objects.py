"""Calls of tools as JSON objects: which key holds the name, the arguments, or nothing of interest.

Every key is accounted for. An object with an unknown key is no valid call.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentgym.reading.errors import NotUnderstood
from agentgym.reading.loose_json import read_json, too_deep

Signatures = Mapping[str, Mapping[str, Any]]
"""The known tools: name -> JSON schema of each parameter, in order."""

SEVERAL = "An action must have one tool call, got several."
MAX_DEPTH = 30
"""Maximum number of levels of lists and objects in the arguments."""
WRAPPERS = (
    "toolcalls",
    "toolcall",
    "functioncall",
    "tooluse",
    "function",
    "tool",
    "action",
    "calls",
    "tooluses",
)
"""Keys whose value is a call or a list with one, if it is an object or a list."""
NAMES = ("name", "tool", "toolname", "functionname", "function", "action", "actionname",
         "recipientname")  # fmt: skip
ARGUMENTS = (
    "arguments", "parameters", "args", "input", "params", "kwargs", "inputs", "actioninput",
    "actionargs", "actionarguments", "actionparameters", "actionparams", "toolinput", "toolargs",
    "toolarguments", "toolparameters", "toolparams", "functionargs", "functionarguments",
    "functionparameters", "functioninput", "argument",
)  # fmt: skip
_IDS = ("id", "callid", "toolcallid", "tooluseid", "index", "status")
_THOUGHTS = ("thought", "thoughts", "reasoning", "reasoningcontent", "thinking", "content",
             "rationale", "explanation", "refusal", "role", "text")  # fmt: skip
_TYPES = ("function", "tool_use", "tool_call", "function_call", "tool", "custom")


_in_order = json.JSONEncoder(sort_keys=True).encode


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a tool.

    Attributes:
        name: name of the tool.
        arguments: the arguments by name, as JSON values.
    """

    name: str
    arguments: dict[str, Any]

    @property
    def key(self) -> str:
        """The call as text that depends neither on the order of arguments nor on 5 or 5.0."""
        text = _in_order([self.name, self.arguments])
        whole = ".0" in text or "e+" in text  # a whole number may be written as a fraction
        return _in_order([self.name, by_value(self.arguments)]) if whole else text


def by_value(value: Any) -> Any:
    """Returns a JSON value with an integer for each whole number: 195.0 is 195."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: by_value(each) for key, each in value.items()}
    return [by_value(each) for each in value] if isinstance(value, list) else value


def canonical(key: str) -> str:
    """Returns a key without capitals and separators: "Tool_Input" is "toolinput"."""
    return re.sub(r"[\s_-]", "", key.casefold())


def call_of(value: Any, tools: Signatures | None = None) -> Call | None:
    """Returns the call in a JSON value, or None if it is none: see `parts_of`.

    Raises:
        NotUnderstood: with the reason, a sentence, as `parts_of`, or if the arguments are no
            object.
    """
    parts = parts_of(value, tools)
    return None if parts is None else _call(*parts)


def parts_of(value: Any, tools: Signatures | None = None) -> tuple[str, Any] | None:
    """Returns the name and the arguments, as they are written, of the call in a JSON value.

    Chat servers nest calls, as in `{"tool_calls": [{"function": {...}}]}`. None if there is none.

    Args:
        value: a JSON value.
        tools: the known tools.

    Raises:
        NotUnderstood: with the reason, a sentence, for several calls, an unknown key, or two
            keys of the same meaning.
    """
    value = _alone(value)
    if not isinstance(value, dict):
        return None
    keys: dict[str, str] = {}
    for key in value:
        if canonical(key) in keys:
            raise NotUnderstood(f"The tool call has the key {key[:40]!r} twice.")
        keys[canonical(key)] = key
    if wrapper := _wrapper(value, keys):
        _refuse_keys(value, {keys[wrapper]}, keys)
        return parts_of(value[keys[wrapper]], tools)
    if tools and len(value) == 1 and next(iter(value)) in tools:
        name, arguments = next(iter(value.items()))  # {"search": {"query": "shoes"}}
        return (name, arguments) if isinstance(arguments, dict) else None
    if tools and (flat := _flat(value, keys, tools)):
        return value[flat].strip(), {key: each for key, each in value.items() if key != flat}
    name_key = _only(value, keys, NAMES, "name")
    if name_key is None:
        return None
    name = value[name_key].strip().removeprefix("functions.")
    arguments_key = _only(value, keys, ARGUMENTS, "arguments", name_key)
    if not name:
        return None
    if arguments_key is None and tools and name not in tools and len(value) > 1:
        return None  # data with a name
    _refuse_keys(value, {name_key, arguments_key or name_key}, keys)
    return name, value[arguments_key] if arguments_key else None


def _alone(value: Any) -> Any:
    """Returns the value without lists of one entry around it."""
    while isinstance(value, list) and value:
        if len(value) > 1:
            if any(isinstance(each, dict) for each in value):
                raise NotUnderstood(SEVERAL)
            return None
        value = value[0]
    return value


def _wrapper(value: dict[str, Any], keys: dict[str, str]) -> str | None:
    """Returns the key that holds the call of an object without a name of its own."""
    found = [key for key in WRAPPERS if key in keys and _holds(value[keys[key]])]
    named = any(isinstance(value.get(keys.get(key, "")), str) for key in NAMES)
    return found[0] if found and not named else None


def _holds(value: Any) -> bool:
    return isinstance(value, dict) or (
        isinstance(value, list) and bool(value) and all(isinstance(each, dict) for each in value)
    )


def _only(
    value: dict[str, Any], keys: dict[str, str], names: tuple[str, ...], kind: str, other: str = ""
) -> str | None:
    """Returns the only key among some names, without an empty second one."""
    found = [keys[name] for name in names if name in keys and keys[name] != other]
    if kind == "name":
        found = [key for key in found if isinstance(value[key], str)]
    filled = [key for key in found if value[key] not in (None, "", {}, [])]
    if len(filled) > 1:
        shown = " and ".join(repr(key) for key in filled[:2])
        raise NotUnderstood(f"The tool call has two keys with its {kind}: {shown}.")
    return (filled or found or [None])[0]


def _flat(value: dict[str, Any], keys: dict[str, str], tools: Signatures) -> str | None:
    """Returns the key of the name of a known tool, if all other keys are its parameters."""
    if any(isinstance(value[keys[key]], dict) for key in ARGUMENTS if key in keys):
        return None
    found = []
    for key in (keys[name] for name in NAMES if name in keys):
        name = value[key].strip() if isinstance(value[key], str) else ""
        rest = value.keys() - {key}
        if rest and name in tools and rest <= tools[name].keys():
            found.append(key)
    return found[0] if len(found) == 1 else None


def _refuse_keys(value: dict[str, Any], used: set[str], keys: dict[str, str]) -> None:
    for short, key in keys.items():
        if key in used or (short in _IDS and isinstance(value[key], str | int | None)):
            continue
        if short in _THOUGHTS and isinstance(value[key], str | None):
            continue
        if value[key] in (None, [], {}, "") and short in (*NAMES, *ARGUMENTS, *WRAPPERS):
            continue
        if short in ("type", "calltype") and value[key] in _TYPES:
            continue
        raise NotUnderstood(f"The tool call has the unknown key {key[:40]!r}.")


def _call(name: str, arguments: Any) -> Call:
    """Returns a call, whose arguments can also be JSON text."""
    if isinstance(arguments, str) and arguments.strip():
        text = arguments.strip()
        try:
            arguments, stop = read_json(text)
        except NotUnderstood as reason:
            raise NotUnderstood(f"The tool call is not valid: {reason} in its arguments.") from None
        if text[stop:].strip():
            raise NotUnderstood("The tool call is not valid: text follows its arguments.")
    if arguments is None or arguments == "" or arguments == []:
        arguments = {}
    if not isinstance(arguments, dict):
        raise NotUnderstood("The tool call is not valid: the arguments are not a JSON object.")
    if too_deep(arguments, MAX_DEPTH):
        raise NotUnderstood("The tool call is not valid: it is nested too deeply.")
    return Call(name, arguments)


def typed(text: str, schema: Any = None) -> Any:
    """Returns the value of an argument that is written as text, as in XML.

    A parameter that takes a string keeps the text, unless it also takes the JSON value that the
    text is. Others are JSON or constants of Python, also without a schema.
    """
    kinds = _kinds(schema)
    if kinds == {"string"}:
        return text
    try:
        value, stop = read_json(text.strip())
    except NotUnderstood:
        return text
    if text.strip()[stop:] or ("string" in kinds and _kind(value) not in kinds):
        return text
    return value


def _kind(value: Any) -> str:
    """Returns the type of a JSON value in the words of JSON schemas."""
    if isinstance(value, str):
        return "text in quotes"
    if isinstance(value, bool):
        return "boolean"
    names = {int: "integer", float: "number", list: "array", dict: "object"}
    return names.get(type(value), "null")


def _kinds(schema: Any) -> set[str]:
    """Returns the types that a schema accepts, as far as it names them."""
    if not isinstance(schema, Mapping):
        return set()
    if "enum" in schema:
        return {"string"} if any(isinstance(each, str) for each in schema["enum"]) else set()
    kind = schema.get("type", [])
    found = {kind} if isinstance(kind, str) else set(kind)
    for each in schema.get("anyOf", ()):
        found |= _kinds(each)
    return found | {"integer"} if "number" in found else found
