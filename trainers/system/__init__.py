"""Processes, signals and files of a run."""
