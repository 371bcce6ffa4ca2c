"""The observation of the guessing games: the questions so far and their answers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from agentgym.time_step import TimeStep


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
