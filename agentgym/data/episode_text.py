"""The text of an episode that a judge reads."""

from __future__ import annotations

from collections.abc import Iterable

LONGEST = 2000
"""Characters of an observation or action that a judge reads, from its start."""


def episode_text(
    instructions: str, turns: Iterable[tuple[str, str, str]], ending: Iterable[str] = ()
) -> str:
    """Returns the text of an episode.

    Args:
        instructions: the rules, if they are known.
        turns: the actor ("" if there is only one), observation and action of each turn.
        ending: paragraphs after the turns.
    """
    lines = [instructions]
    for number, (actor, observation, action) in enumerate(turns, 1):
        lines += [
            f"Turn {number}{actor and f' ({actor})'}",
            f"Observation: {observation[:LONGEST]}",
            f"Action: {action[:LONGEST]}",
        ]
    return "\n\n".join(line for line in (*lines, *ending) if line)


def outcome_text(success: bool, gain: float) -> str:
    """Returns the sentence about the outcome."""
    solved = "solved" if success else "not solved"
    return f"Outcome: the task was {solved}, the sum of all rewards is {gain:g}."
