"""Calls of tools in the markup of chat models: tags, special tokens and XML parameters.

Each reader starts behind an opening mark and returns the call with the index behind it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from agentgym.reading.errors import NotUnderstood
from agentgym.reading.loose_json import read_json
from agentgym.tools.call_code import NoCall, call_stop, read_code
from agentgym.tools.call_objects import SEVERAL, Call, Signatures, call_of, typed

OPEN, CLOSE = "<tool_call>", "</tool_call>"
"""The marks of a call in the format of Qwen and Hermes."""
PYTHON_TAG = "<|python_tag|>"
_NAME = r"(?:functions\.)?(?P<name>[A-Za-z_][\w.-]{0,100})"
_SPACE = re.compile(r"\s{0,10000}")
_FUNCTION = re.compile(rf"<function(?:\s?|\s+name\s?)=\s?[\"']?{_NAME}[\"']?\s?>\s{{0,99}}")
_PARAMETER = re.compile(r"\s{0,99}<parameter\s?=\s?[\"']?(?P<key>[\w.-]{1,100})[\"']?\s?>")
_INVOKE = re.compile(
    rf"<(?:[\w｜|]{{1,20}}:?)?invoke\s+name\s?=\s?[\"'“”]{_NAME}[\"'“”]\s?>\s{{0,99}}"
)
_INVOKE_PARAMETER = re.compile(
    r"\s{0,99}<(?P<prefix>[\w｜|]{1,20}:?)?parameter\s+name\s?=\s?[\"'“”](?P<key>[\w.-]{1,100})[\"'“”]"
    r"(?:\s+string=[\"'](?P<string>true|false)[\"'])?\s?>"
)
_INVOKE_CLOSE = re.compile(r"\s{0,99}</(?:[\w｜|]{1,20}:?)?invoke\s?>")
_GLM = re.compile(rf"{_NAME}(?=\s{{0,99}}(?:<arg_key>|</tool_call>|\Z))")
_GLM_PAIR = re.compile(r"\s{0,99}<arg_key>(?P<key>[^<]{1,100})</arg_key>\s{0,99}<arg_value>")
_MISTRAL = re.compile(
    rf"\s{{0,99}}{_NAME}\s{{0,9}}(?:\[CALL_ID\]\s?\w{{1,64}}\s?)?(?:\[ARGS\])?\s{{0,99}}(?=\{{)"
)
_DEEPSEEK = re.compile(
    rf"\s{{0,99}}(?:function\s{{0,9}}<[｜|]tool▁sep[｜|]>\s{{0,9}})?{_NAME}\s{{0,9}}"
    r"(?:<[｜|]tool▁sep[｜|]>)?\s{0,99}(?:```(?:json)?\s{0,9})?(?=\{)"
)
_DEEPSEEK_CLOSE = re.compile(r"\s{0,99}(?:```)?\s{0,99}(?:<[｜|]tool▁call▁end[｜|]>)")
_KIMI = re.compile(
    rf"\s{{0,99}}{_NAME}(?::\d{{1,4}})?\s{{0,99}}<\|tool_call_argument_begin\|>\s{{0,99}}"
)
_GEMMA = re.compile(rf"\s{{0,99}}call:{_NAME}\s{{0,9}}(?=\{{)")
_GEMMA_END = re.compile(r"<end_function_call>|<tool_call\|>")
_GEMMA_STRING = re.compile(r"<escape>(.*?)<escape>|<\|\"\|>(.*?)<\|\"\|>", re.DOTALL)
_CALLED = re.compile(rf"{_NAME}\s{{0,2}}\(")
_ANOTHER = re.compile(rf"[\s;,]{{1,99}}{_NAME}\(")

Reader = Callable[[str, int, Signatures | None], tuple[Call, int]]
"""(text, index, known tools) -> the call at the index, and the index behind it."""


def invalid(reason: object) -> NotUnderstood:
    """Returns the error of a malformed call."""
    text = str(reason)
    whole = text.startswith(("The ", "An "))
    return NotUnderstood(text if whole else f"The tool call is not valid: {text}.")


def skip(text: str, at: int) -> int:
    """Returns the index behind white space."""
    space = _SPACE.match(text, at)
    return space.end() if space else at


def read_object(text: str, at: int, tools: Signatures | None = None) -> tuple[Call, int]:
    """Reads a JSON object, or a list with one, that must be a call."""
    at = skip(text, at)
    if text[at : at + 1] not in ("{", "["):
        raise invalid("it has no JSON object")
    try:
        value, stop = read_json(text, at)
    except NotUnderstood as reason:
        raise invalid(reason) from None
    call = call_of(value, tools)
    if call is None:
        raise invalid('it has no "name"')
    return call, stop


def object_arguments(text: str, at: int, name: str) -> tuple[Call, int]:
    """Reads the JSON object of the arguments of a named tool."""
    try:
        value, stop = read_json(text, at)
    except NotUnderstood as reason:
        raise invalid(reason) from None
    call = call_of({"name": name, "arguments": value})
    assert call is not None
    return call, stop


def _expect(text: str, at: int, mark: str, *, end: bool = False) -> int:
    """Returns the index behind a closing mark. It may be missing at the end of the text."""
    start = skip(text, at)
    if text.startswith(mark, start):
        return start + len(mark)
    if end and start == len(text):
        return at
    raise NotUnderstood(f"The tool call does not end with {mark}.")


def read_tag(text: str, at: int, tools: Signatures | None) -> tuple[Call, int]:
    """Reads the content of `<tool_call>`: JSON, XML parameters, GLM's pairs or Python."""
    at = skip(text, at)
    if text.startswith("<function", at):
        call, at = read_function(text, at, tools)
    elif _INVOKE.match(text, at):
        call, at = read_invoke(text, at, tools)
    elif glm := _GLM.match(text, at):
        call, at = _read_pairs(text, glm, tools)
    elif called := _CALLED.match(text, at):
        stop = call_stop(text, called.end() - 1)
        call, at = _code(text[at : max(stop, at)], tools), stop
    else:
        call, at = read_object(text, at, tools)
    return call, _expect(text, at, CLOSE, end=True)


def _code(code: str, tools: Signatures | None) -> Call:
    try:
        return read_code(code, tools)
    except NoCall:
        raise invalid("it has no JSON object") from None


def _code_at(text: str, at: int, opened: int, tools: Signatures | None) -> tuple[Call, int]:
    """Reads a call, or a list with one call, whose bracket opens at an index."""
    stop = max(call_stop(text, opened), at)
    if _ANOTHER.match(text, stop):
        raise NotUnderstood(SEVERAL)
    return _code(text[at:stop], tools), stop


def read_python_tag(text: str, at: int, tools: Signatures | None) -> tuple[Call, int]:
    """Reads the call behind `<|python_tag|>` of Llama: JSON, or Python to the end."""
    at = skip(text, at)
    if called := _CALLED.match(text, at):
        return _code_at(text, at, called.end() - 1, tools)
    return read_object(text, at, tools)


def read_function(text: str, at: int, tools: Signatures | None) -> tuple[Call, int]:
    """Reads `<function=f>` with XML parameters (Qwen3-Coder) or JSON arguments (Llama 3.1)."""
    opened = _FUNCTION.match(text, at)
    if opened is None:
        raise invalid("it has no name in <function=...>")
    name, at = opened["name"], opened.end()
    if text.startswith("{", at):
        call, at = object_arguments(text, at, name)
    else:
        found, at = _read_parameters(text, at, _PARAMETER, "</parameter>", (tools or {}).get(name))
        call = Call(name, found)
    return call, _expect(text, at, "</function>", end=isinstance(call, Call) and not tools)


def read_invoke(text: str, at: int, tools: Signatures | None) -> tuple[Call, int]:
    """Reads `<invoke name="f">` with `<parameter name="x">` (Claude, MiniMax, DeepSeek V3.2)."""
    opened = _INVOKE.match(text, at)
    if opened is None:
        raise invalid('it has no name in <invoke name="...">')
    name = opened["name"]
    schemas = (tools or {}).get(name)
    found, at = _read_parameters(text, opened.end(), _INVOKE_PARAMETER, "</{}parameter>", schemas)
    closed = _INVOKE_CLOSE.match(text, at)
    if closed is None:
        raise NotUnderstood("The tool call does not end with </invoke>.")
    return Call(name, found), closed.end()


def _read_parameters(
    text: str, at: int, pattern: re.Pattern[str], close: str, schemas: Any
) -> tuple[dict[str, Any], int]:
    """Reads XML parameters. One line end around a value belongs to the markup."""
    found: dict[str, Any] = {}
    while opened := pattern.match(text, at):
        fields = opened.groupdict()
        mark = close.format(fields.get("prefix") or "")
        stop = text.find(mark, opened.end())
        key = opened["key"]
        if stop < 0:
            raise NotUnderstood(f"The parameter {key!r} of the tool call does not end with {mark}.")
        if key in found:
            raise NotUnderstood(f"The tool call has the parameter {key!r} twice.")
        value = text[opened.end() : stop]
        value = value[value.startswith("\n") : len(value) - value.endswith("\n")]
        string = fields.get("string")
        schema = {"type": "string"} if string == "true" else (schemas or {}).get(key)
        found[key] = typed(value, schema)
        at = stop + len(mark)
    return found, at


def _read_pairs(text: str, opened: re.Match[str], tools: Signatures | None) -> tuple[Call, int]:
    """Reads GLM's `<arg_key>` and `<arg_value>` behind the name of a tool."""
    name, at, found = opened["name"], opened.end(), dict[str, Any]()
    schemas = (tools or {}).get(name) or {}
    while pair := _GLM_PAIR.match(text, at):
        key, stop = pair["key"].strip(), text.find("</arg_value>", pair.end())
        if stop < 0:
            raise NotUnderstood("The tool call does not end with </arg_value>.")
        if key in found:
            raise NotUnderstood(f"The tool call has the argument {key!r} twice.")
        found[key] = typed(text[pair.end() : stop], schemas.get(key))
        at = stop + len("</arg_value>")
    if not found and (tools is None or name not in tools):
        raise invalid("it has no JSON object")
    return Call(name, found), at


def read_mistral(text: str, at: int, tools: Signatures | None) -> tuple[Call, int]:
    """Reads the call behind `[TOOL_CALLS]`: a list of objects, or `f[ARGS]{...}`."""
    if named := _MISTRAL.match(text, at):
        return object_arguments(text, named.end(), named["name"])
    return read_object(text, at, tools)


def read_deepseek(text: str, at: int, tools: Signatures | None) -> tuple[Call, int]:
    """Reads the call behind `<｜tool▁call▁begin｜>`."""
    named = _DEEPSEEK.match(text, at)
    if named is None:
        raise invalid("it has no name and no JSON object")
    call, stop = object_arguments(text, named.end(), named["name"])
    closed = _DEEPSEEK_CLOSE.match(text, stop)
    return call, closed.end() if closed else stop


def read_kimi(text: str, at: int, tools: Signatures | None) -> tuple[Call, int]:
    """Reads the call behind `<|tool_call_begin|>`: `functions.f:0<|tool_call_argument_begin|>`."""
    named = _KIMI.match(text, at)
    if named is None:
        raise invalid("it has no name and no JSON object")
    call, stop = object_arguments(text, named.end(), named["name"])
    return call, _expect(text, stop, "<|tool_call_end|>", end=True)


def read_listed(text: str, at: int, tools: Signatures | None) -> tuple[Call, int]:
    """Reads a list behind a mark such as `<|tool_call_start|>`: JSON, or Python as LFM2 writes."""
    at = skip(text, at)
    called = _CALLED.match(text, at + text.startswith("[", at))
    if called is None:
        return read_object(text, at, tools)
    return _code_at(text, at, at if text.startswith("[", at) else called.end() - 1, tools)


def read_gemma(text: str, at: int, tools: Signatures | None) -> tuple[Call, int]:
    """Reads `call:f{key:VALUE}` with marks around strings, as FunctionGemma and Gemma 4 write."""
    named, end = _GEMMA.match(text, at), _GEMMA_END.search(text, at)
    stop = end.start() if end else len(text)
    if named is None or named.end() >= stop:
        raise invalid("it has no name and no arguments")
    given = _GEMMA_STRING.sub(
        lambda found: json.dumps(found[1] or found[2] or "", ensure_ascii=False),
        text[named.end() : stop],
    )
    call, used = object_arguments(given, 0, named["name"])
    if given[used:].strip():
        raise invalid("text follows its arguments")
    return call, end.end() if end else stop


MARKS: tuple[tuple[str, Reader], ...] = (
    (re.escape(OPEN), read_tag),
    (re.escape(PYTHON_TAG), read_python_tag),
    (r"\[TOOL_CALLS\]", read_mistral),
    (r"<[｜|]tool▁call▁begin[｜|]>", read_deepseek),
    (r"<\|tool_call_begin\|>", read_kimi),
    (
        r"<\|(?:tool_call_start|tool_call|tool_calls|START_ACTION|python_start)\|>|<tool_calls>"
        r"|<function_calls>(?=\s{0,99}\[?[A-Za-z_][\w.]{0,99}\()",
        read_listed,
    ),
    (r"<start_function_call>|<\|tool_call>", read_gemma),
    (r"(?=<function(?:\s?|\s+name\s?)=)", read_function),
    (r"(?=<(?:[\w｜|]{1,20}:?)?invoke\s)", read_invoke),
)
"""Pattern of an opening mark -> reader of the call behind it."""
CLOSERS = re.compile(
    r"</?(?:[\w｜|]{1,20}:?)?(?:function_calls|tool_calls?|code|tool_use|answer)>|</tool_call>"
    r"|<[｜|]tool▁calls▁(?:begin|end)[｜|]>|<\|tool_calls_section_(?:begin|end)\|>"
    r"|<\|(?:tool_call_end|/tool_calls?|END_ACTION|python_end)\|>|<\|/tool_call\|>|<end_code>|```"
)
"""Marks around calls that hold no call themselves."""
