"""Certificates of environments: what they pay for, give away, and keep equal."""

from agentgym.certify.budget import Budget
from agentgym.certify.certificate import certify
from agentgym.certify.report import Report, Result

__all__ = ["Budget", "Report", "Result", "certify"]
