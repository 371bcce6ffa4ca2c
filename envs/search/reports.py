"""Scores of reports by a judge."""

from __future__ import annotations

from collections.abc import Sequence

from agentgym.data.episode import RecordedEpisode, RecordedTurn
from agentgym.data.episode_text import LONGEST
from agentgym.envs.search.questions import Question
from agentgym.envs.search.world import Page

REPORT = LONGEST
"""Maximum number of characters of a report, all of which a judge reads."""


def report_episode(
    rules: str, question: Question, pages: Sequence[Page], report: str
) -> RecordedEpisode:
    """Returns an episode for a judge: the pages that the agent has opened, and the report.

    Args:
        rules: the instructions of the agent.
        question: the question. The judge reads its answers, if any are known.
        pages: the opened pages, in order.
        report: the report.
    """
    start = f"Question: {question.text}"
    if question.answer:
        accepted = " or ".join((question.answer, *question.others))
        start += f"\nReference answer, which the agent does not see: {accepted}"
    observations = [start, *(page.text for page in pages)]
    actions = [*(f"open[{page.title}]" for page in pages), f"report[{report}]"]
    turns = [RecordedTurn(*pair) for pair in zip(observations, actions, strict=True)]
    return RecordedEpisode(turns, instructions=rules)
