r"""Arithmetic expressions in one plain form, without LaTeX, brackets and separators."""

from __future__ import annotations

import re

from agentgym.reading.typography import plain_operators

_COMMANDS: dict[str, str] = {
    "times": "*", "cdot": "*", "ast": "*", "div": "/", "left": "", "right": "", "big": "",
    "Big": "", "bigl": "", "bigr": "", "quad": " ", "displaystyle": "",
}  # fmt: skip
_COMMAND = re.compile(r"\\([A-Za-z]{1,20})(?![A-Za-z])")
_SPACE = re.compile(r"\\[,;:! ]|\\[()\[\]]|~")
_FRACTION = re.compile(r"\\[td]?frac ?\{([^{}]{1,100})\} ?\{([^{}]{1,100})\}")
_BRACKETS = str.maketrans("[]{}", "()()", "$")
_CROSS = re.compile(r"(?<=[\d)]) {0,3}[xX] {0,3}(?=[\d(])")
_SEPARATOR = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_MOST = 1000


def plain_expression(text: str) -> str:
    r"""Returns an expression with + - * / and parentheses in place of their other forms.

    Examples are "3 × [4 − 1]", "1,250 ÷ 5", `3 \times \frac{8}{4}` and "3 x 4". Other text stays as
    it is. Texts of more than 1,000 characters are returned as they are.
    """
    if len(text) > _MOST:
        return text
    text = plain_operators(text)
    if "\\" in text:
        for _ in range(20):  # from the inside out
            text, count = _FRACTION.subn(r"((\1) / (\2))", text)
            if not count:
                break
        text = _SPACE.sub(" ", text)
        text = _COMMAND.sub(lambda found: _COMMANDS.get(found[1], found[0]), text)
    text = _SEPARATOR.sub("", text.translate(_BRACKETS))
    return " ".join(_CROSS.sub(" * ", text).split())
