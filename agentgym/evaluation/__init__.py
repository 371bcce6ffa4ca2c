"""Evaluation of agents on tasks of an environment and in games, and reports."""

from agentgym.evaluation.crossplay import CrossPlay, cross_play
from agentgym.evaluation.exploitability import NashConv, nashconv
from agentgym.evaluation.pictures import draw_cross_play
from agentgym.evaluation.report import Record, Report, compare
from agentgym.evaluation.runner import evaluate
from agentgym.evaluation.self_play import self_play

__all__ = [
    "CrossPlay",
    "NashConv",
    "Record",
    "Report",
    "compare",
    "cross_play",
    "draw_cross_play",
    "evaluate",
    "nashconv",
    "self_play",
]
