"""Evaluation of agents on tasks of an environment, and reports."""
