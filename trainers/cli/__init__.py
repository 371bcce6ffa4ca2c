"""The commands `agentgym train` and `agentgym sweep`, and runs in processes of their own."""
