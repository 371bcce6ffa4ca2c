"""Planning: agents that search on snapshots of their environment."""

from agentgym.agents.search.agent import ALGORITHMS, SearchAgent

__all__ = ["ALGORITHMS", "SearchAgent"]
