"""The command `agentgym`."""
