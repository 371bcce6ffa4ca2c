"""Splits programs of awk into tokens."""

from __future__ import annotations

import re

from agentgym.envs.shell.tree import Unknown

STATEMENTS = ("if", "else", "for", "while", "print", "printf", "next", "exit", "delete", "break")
_TOKEN = re.compile(
    r"""(?P<space>(?:[ \t\r]|\\\n|\#[^\n]*)+)
    |(?P<number>[0-9]+\.?[0-9]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+)
    |(?P<text>"(?:\\.|[^"\\\n])*")
    |(?P<name>[A-Za-z_]\w*)
    |(?P<operator>\+\+|--|\*\*|&&|\|\||[-+*/%^=!<>]=|!~|>>|[-+*/%^=!<>~?:,;(){}\[\]$|\n])""",
    re.VERBOSE | re.DOTALL,
)
_PATTERN = re.compile(r"/((?:\\.|\[\^?\]?[^\]\n]*\]|[^/\\\n\[])*)/")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\", "/": "/"}


def unescaped(text: str) -> str:
    r"""Returns a text with the meaning of `\n` and `\t`, and other backslashes kept."""
    return _ESCAPE.sub(lambda match: _ESCAPES.get(match[1], match[0]), text)


def tokens(program: str) -> list[tuple[str, str]]:
    """Returns the kinds and texts of the tokens. Slashes begin a pattern behind an operator."""
    found: list[tuple[str, str]] = []
    place = 0
    while place < len(program):
        value = found and (
            found[-1][0] in ("number", "text")
            or (found[-1][0] == "name" and found[-1][1] not in STATEMENTS)
            or found[-1][1] in (")", "]", "$", "++", "--")
        )
        match = None if value else _PATTERN.match(program, place)
        if match is not None:
            found.append(("pattern", match[1].replace("\\/", "/")))
        else:
            match = _TOKEN.match(program, place)
            if match is None:
                raise Unknown(f"this awk program is not supported near {program[place:][:20]!r}")
            if match.lastgroup != "space":
                found.append((str(match.lastgroup), match[0]))
        place = match.end()
    return [*found, ("end", "the end"), ("end", ""), ("end", ""), ("end", "")]
