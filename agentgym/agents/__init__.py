"""Agents: something that plays."""
