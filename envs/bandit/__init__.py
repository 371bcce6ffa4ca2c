"""Bandits: multi-armed and contextual."""
