"""Evaluation of agents on tasks of an environment, and reports."""

from agentgym.evaluation.report import Record, Report, compare
from agentgym.evaluation.runner import evaluate

__all__ = ["Record", "Report", "compare", "evaluate"]
