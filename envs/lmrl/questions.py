"""The questions of the guessing games as models write them, and their observation."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from agentgym.time_step import TimeStep
from agentgym.utils.action_parsing import command
from agentgym.utils.marks import undressed

_NUMBER = re.compile(r"(?:>|-|\d{1,2}[.)]|q[ .#]{0,2}\d{0,2}[:.)])\s+", re.IGNORECASE)
_SEVERAL = re.compile(r"\?[\"')]?[,;]?\s+(?!\(?yes(?: or |/)no\)?[?.]?$)\W{0,3}\w", re.IGNORECASE)


def is_several(question: str) -> bool:
    """Whether a text has words behind a question mark, such as another question."""
    return _SEVERAL.search(question) is not None


def bare_question(said: str) -> str:
    """Returns a question without its label or number, and the quotes or other marks around it."""
    text = command(said).strip('"\u201c\u201d ')
    text = text if "\n" in text else undressed(text)
    return _NUMBER.sub("", text, count=1) if _NUMBER.match(text) else text


def asked_so_far(
    asked: Sequence[tuple[str, str]],
    most: int,
    menu: tuple[str, ...],
    left: tuple[int, int],
    *,
    valid: bool,
    won: bool,
) -> TimeStep:
    """Returns the step after a question.

    Args:
        asked: the questions and their answers.
        most: limit of questions, which ends the episode.
        menu: the admissible questions, if they are a menu.
        left: number of remaining secrets, and of all.
        valid: whether the last question was valid, and so counts.
        won: whether it was the right guess.
    """
    over = won or len(asked) >= most
    lines = [f"{question} {answer}" for question, answer in asked]
    return TimeStep(
        text="\n".join([f"Questions left: {most - len(asked)}.", *lines]),
        rewards={"task": -1.0} if asked and valid and not won else {},
        terminated=over,
        valid=valid,
        success=won,
        progress=1.0 if won else 1 - float(np.log1p(left[0]) / np.log1p(left[1])),
        admissible=() if over else menu,
    )
