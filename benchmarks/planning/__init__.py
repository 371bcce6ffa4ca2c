"""Searches on snapshots, world models, and memory of agents."""
