"""A trained policy as an agent."""
