"""Overcooked with macro actions."""
