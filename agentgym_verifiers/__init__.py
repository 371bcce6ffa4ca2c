"""AgentGym for `verifiers`, which imports a taskset by the name of a top-level package."""

from agentgym.integrations.verifiers import AgentGymEnv, AgentGymTaskset, ChatHarness

__all__ = ["AgentGymEnv", "AgentGymTaskset", "ChatHarness"]
