"""Demonstrations and behaviour cloning."""
