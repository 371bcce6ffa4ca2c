"""Programming tasks. Programs of the agent run in a sandbox."""
