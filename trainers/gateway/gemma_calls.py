"""Calls in the syntax of Gemma 4: `<|tool_call>call:f{a:3,b:<|"|>x<|"|>}<tool_call|>`."""

from __future__ import annotations

import re
from typing import Any

from agentgym.reading.errors import NotUnderstood
from agentgym.tools.call_objects import MAX_DEPTH, Call

GEMMA = r"<\|tool_call>\s?call:"
"""Pattern of the opening mark."""
_CLOSE = "<tool_call|>"
_QUOTE = '<|"|>'
_NAME = re.compile(r"\s{0,9}([A-Za-z_][\w.-]{0,100})(?=\{)")
_KEY = re.compile(r"\s{0,99}([^\s:,{}\[\]<]{1,100})\s{0,9}:")
_WORD = re.compile(r"[^,{}\[\]<]{1,1000}")
_CONSTANTS: dict[str, Any] = {"true": True, "false": False, "null": None}


def read_gemma(text: str, at: int) -> tuple[Call, int]:
    """Returns the call behind the opening mark, and the index behind its closing mark.

    Raises:
        NotUnderstood: if the call is malformed.
    """
    named = _NAME.match(text, at)
    if named is None:
        raise NotUnderstood("the call has no name")
    arguments, stop = _object(text, named.end(), 0)
    if not text.startswith(_CLOSE, stop):
        raise NotUnderstood("the call is not closed")
    return Call(named[1], arguments), stop + len(_CLOSE)


def _value(text: str, at: int, depth: int) -> tuple[Any, int]:
    if depth > MAX_DEPTH:
        raise NotUnderstood("the call is nested too deeply")
    if text.startswith(_QUOTE, at):
        stop = text.find(_QUOTE, at + len(_QUOTE))
        if stop < 0:
            raise NotUnderstood("a text is not closed")
        return text[at + len(_QUOTE) : stop], stop + len(_QUOTE)
    if text.startswith("{", at):
        return _object(text, at, depth)
    if text.startswith("[", at):
        return _list(text, at, depth)
    word = _WORD.match(text, at)
    if word is None:
        raise NotUnderstood("a value is missing")
    return _scalar(word[0].strip()), word.end()


def _scalar(word: str) -> Any:
    if word in _CONSTANTS:
        return _CONSTANTS[word]
    for kind in (int, float):
        try:
            number = kind(word)
        except ValueError:
            continue
        if number == number and abs(number) != float("inf"):
            return number
    return word


def _object(text: str, at: int, depth: int) -> tuple[dict[str, Any], int]:
    found: dict[str, Any] = {}
    at += 1
    while not text.startswith("}", at):
        key = _KEY.match(text, at)
        if key is None or key[1] in found:
            raise NotUnderstood("a key is missing or given twice")
        found[key[1]], at = _value(text, key.end(), depth + 1)
        at = _next(text, at, "}")
    return found, at + 1


def _list(text: str, at: int, depth: int) -> tuple[list[Any], int]:
    found: list[Any] = []
    at += 1
    while not text.startswith("]", at):
        value, at = _value(text, at, depth + 1)
        found.append(value)
        at = _next(text, at, "]")
    return found, at + 1


def _next(text: str, at: int, end: str) -> int:
    """Returns the index of the next entry or of the closing bracket."""
    if text.startswith(",", at):
        return at + 1
    if text.startswith(end, at):
        return at
    raise NotUnderstood("a bracket is not closed")
