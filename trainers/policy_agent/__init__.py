"""Policies as agents.

`load_agent` loads a trained one, `load_league` a mixture and `load_pretrained` a language model.
"""

from agentgym.trainers.policy_agent.loading import load_agent, load_league, load_pretrained

__all__ = ["load_agent", "load_league", "load_pretrained"]
