"""Evaluation: an agent plays tasks of an environment, and a report summarises the episodes."""
