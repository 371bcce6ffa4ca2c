r"""Arithmetic expressions in one plain form, and integers, in the usual ways to write them."""

from __future__ import annotations

import re

from agentgym.reading.answers import final_answer
from agentgym.reading.errors import NotUnderstood
from agentgym.reading.number_words import SMALL, TENS
from agentgym.reading.numbers import parse_number
from agentgym.reading.typography import plain_operators

_COMMANDS: dict[str, str] = {
    "times": "*", "cdot": "*", "ast": "*", "div": "/", "left": "", "right": "", "big": "",
    "Big": "", "bigl": "", "bigr": "", "quad": " ", "displaystyle": "",
}  # fmt: skip
_COMMAND = re.compile(r"\\([A-Za-z]{1,20})(?![A-Za-z])")
_SPACE = re.compile(r"\\[,;:! ]|\\[()\[\]]|~")
_BRACE = re.compile(r"\\([{}])")
_FRACTION = re.compile(r"\\[td]?frac ?\{([^{}]{1,100})\} ?\{([^{}]{1,100})\}")
_BRACKETS = str.maketrans("[]{}", "()()", "$")
_CROSS = re.compile(r"(?<=[\d)]) {0,3}[xX] {0,3}(?=[\d(])")
_SEPARATOR = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_MOST = 1000
_PLAIN = re.compile(r"-?[0-9]{1,100}")
_NUMERIC = re.compile(rf"\d|(?<!\w)(?:{'|'.join((*SMALL, *TENS))})", re.IGNORECASE)
_NAME = re.compile(r"\s*(?:[a-z]|value|result|answer|it)\s*", re.IGNORECASE)


def plain_expression(text: str) -> str:
    r"""Returns an expression with + - * / and parentheses in place of their other forms.

    Examples are "3 × [4 − 1]", "1,250 ÷ 5", `3 \times \frac{8}{4}` and "3 x 4". Other text stays as
    it is. Texts of more than 1,000 characters are returned as they are.
    """
    if len(text) > _MOST:
        return text
    text = " ".join(plain_operators(text).split())
    while "\\" in text:  # one that is left may now stand before another character
        before, text = text, _without_commands(text)
        if text == before:
            break
    text = _SEPARATOR.sub("", text.translate(_BRACKETS))
    return " ".join(_CROSS.sub(" * ", text).split())


def _without_commands(text: str) -> str:
    """Returns a text without the commands of LaTeX that are known."""
    for _ in range(20):  # from the inside out
        text, count = _FRACTION.subn(r"((\1) / (\2))", text)
        if not count:
            break
    text = _BRACE.sub(r"\1", text.replace("$", ""))
    text = _SPACE.sub(" ", text)
    return _COMMAND.sub(lambda found: _COMMANDS.get(found[1], found[0]), text)


def parse_integer(answer: str, expression: str = "") -> int | None:
    r"""Returns the integer of an answer, or None if the answer is anything else.

    Args:
        answer: a number, as in "-12", "1,200", `\boxed{7}`, "Answer: 5" and "x = 5".
        expression: the expression asked for, which may stand before an equals sign.
    """
    if _PLAIN.fullmatch(answer):  # the usual form
        return int(answer)
    if not _NUMERIC.search(answer):
        return None
    try:
        left, equals, text = final_answer(answer).rpartition("=")
    except NotUnderstood:
        return None
    asked = "".join(plain_expression(left).split()) == "".join(expression.split())
    if equals and not (asked or _NAME.fullmatch(left)):
        return None
    value = parse_number(text)
    return int(value) if value is not None and value.denominator == 1 else None
