"""A trained policy as an agent: `load_agent` loads the one in a folder."""

from agentgym.trainers.policy_agent.loading import load_agent

__all__ = ["load_agent"]
