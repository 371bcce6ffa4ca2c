"""Rollouts: a policy acts in many environments in parallel."""
