"""Scores of reports by a judge."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from agentgym.data.episode import RecordedEpisode, RecordedTurn
from agentgym.data.episode_text import LONGEST
from agentgym.envs.search.questions import Question
from agentgym.envs.search.world import Page
from agentgym.errors import ConfigError
from agentgym.judges import EpisodeJudge, Judge, Verdict, make_judge

REPORT = LONGEST
"""Maximum number of characters of a report, all of which a judge reads."""


@lru_cache(maxsize=8)
def report_judge(source: str) -> Judge:
    """Returns the judge of a source (see `make_judge`). Environments share it.

    Raises:
        ConfigError: for anything else, or a rubric whose judge reads the outcome, which a report
            has from the judge alone.
    """
    judge = make_judge(source)
    if isinstance(judge, EpisodeJudge) and judge.rubric.outcome:
        raise ConfigError(
            f"The rubric of {source!r} has 'outcome: shown', and its score is the outcome of a "
            "report. Write 'outcome: hidden'."
        )
    return judge


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


def score_report(source: str, episode: RecordedEpisode) -> Verdict:
    """Returns the verdict of a judge on a report."""
    [verdict] = report_judge(source)([episode])
    return verdict
