"""Worlds of squares."""
