"""Rollouts: a policy plays many environments at once."""
