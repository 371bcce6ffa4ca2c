"""Scripts that measure AgentGym: speed, credit, learning, games and planning."""
