"""Policies as agents.

`load_agent` loads a trained one and `load_pretrained` a language model.
"""

from agentgym.trainers.policy_agent.loading import load_agent, load_pretrained

__all__ = ["load_agent", "load_pretrained"]
