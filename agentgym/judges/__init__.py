"""Judges of whole episodes: models, functions and juries that score episodes by a rubric."""

from agentgym.judges.judge import EpisodeJudge, Judge, make_judge, outcome_judge, outcome_of
from agentgym.judges.rubric import Rubric, read_rubric
from agentgym.judges.verdict import CAUSES, Verdict

__all__ = [
    "CAUSES",
    "EpisodeJudge",
    "Judge",
    "Rubric",
    "Verdict",
    "make_judge",
    "outcome_judge",
    "outcome_of",
    "read_rubric",
]
