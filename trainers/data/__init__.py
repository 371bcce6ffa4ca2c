"""Trajectories, and the structures that hold, pack and replay them. Nothing here knows a model."""
