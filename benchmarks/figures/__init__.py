"""Figures of README and docs, generated from the result files."""
