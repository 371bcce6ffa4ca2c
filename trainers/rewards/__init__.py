"""Rewards of a run: those of the environment, process rewards, judges and penalties."""
