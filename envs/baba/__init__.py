"""Baba Is AI: puzzles whose rules are blocks that can be pushed."""
