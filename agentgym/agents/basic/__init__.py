"""The view of an episode that agents receive, agents that map it to actions, world models."""
