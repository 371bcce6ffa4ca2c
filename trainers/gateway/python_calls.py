"""Lists of calls as Python, in the syntax of LFM2 and Llama 4: `[f(a=3, b='x'), g()]`."""

from __future__ import annotations

from agentgym.reading.errors import NotUnderstood
from agentgym.tools.call_code import NoCall, call_stop, read_code
from agentgym.tools.call_objects import Call, Signatures


def read_python(text: str, at: int, tools: Signatures) -> tuple[list[Call], int]:
    """Returns the calls of a list, and the index behind its closing bracket.

    Args:
        text: a text.
        at: index of the opening bracket.
        tools: the known tools.

    Raises:
        NotUnderstood: if one of them cannot be read.
        NoCall: likewise.
    """
    stop = call_stop(text, at)
    if stop < 0:
        raise NotUnderstood("the list is not closed")
    calls: list[Call] = []
    begin = at + 1
    while begin < stop - 1:
        end = _call_end(text, begin, stop - 1)
        code = text[begin:end].strip()
        if code:
            calls.append(read_code(code, tools))
        begin = end + 1
    if not calls:
        raise NoCall
    return calls, stop


def _call_end(text: str, begin: int, stop: int) -> int:
    """Returns the index of the comma behind a call, or of the end of the list."""
    opening = text.find("(", begin, stop)
    close = call_stop(text, opening) if opening >= 0 else -1
    if close < 0:
        return stop
    comma = text.find(",", close, stop)
    return stop if comma < 0 else comma
