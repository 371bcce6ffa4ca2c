"""`to_gbnf`: a regular expression as a grammar in GBNF, the format of llama.cpp."""

from __future__ import annotations

import re

_TOKEN = re.compile(
    r"(?P<class>\[(?:\\.|[^\]\\])+\])"
    r"|(?P<repeat>[*?]|\{[0-9]+(?:,[0-9]+)?\})"
    r"|(?P<mark>\(\?:|[)|])"
    r"|(?P<text>(?:\\.|[^\\\[()|*?{])+(?![*?{])|\\.|.)",  # a repetition is of one character
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_SPACES = r" \t\n\r\x0B\x0C\x1C-\x1F\x85\xA0\u1680\u2000-\u200A\u2028\u2029\u202F\u205F\u3000"  # \s


def to_gbnf(regex: str) -> str:
    """Returns the grammar of the texts that a regular expression matches, with the rule `root`.

    Args:
        regex: an expression of characters, classes, groups `(?:...)`, alternatives and the
            repetitions `*`, `?`, `{n}` and `{m,n}`, such as those of `action_grammar`.
    """
    parts, open_ended = ["root ::="], True  # whether an alternative begins here
    for token in _TOKEN.finditer(regex):
        kind, text = token.lastgroup, token[0]
        if open_ended and text in ("|", ")"):
            parts.append('""')
        open_ended = text in ("(?:", "|")
        if kind == "repeat":
            parts[-1] += text
        elif kind == "class":
            parts.append(text.replace(r"\s", _SPACES))
        elif kind == "mark":
            parts.append(text.removesuffix("?:"))
        else:
            parts.append(_quoted(_ESCAPE.sub(r"\1", text)))
    if open_ended:
        parts.append('""')
    return " ".join(parts) + "\n"


def _quoted(text: str) -> str:
    """Returns a text as a string of GBNF."""
    signs = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    shown = (signs.get(c) or (c if c.isprintable() else f"\\U{ord(c):08X}") for c in text)
    return f'"{"".join(shown)}"'
