"""Trained policies as agents. `load_agent` loads one from a folder."""

from agentgym.trainers.policy_agent.loading import load_agent

__all__ = ["load_agent"]
