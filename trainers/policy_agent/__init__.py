"""Trained policies as agents. `load_agent` loads one from a folder, `load_league` a mixture."""

from agentgym.trainers.policy_agent.loading import load_agent, load_league

__all__ = ["load_agent", "load_league"]
