"""The error of text that cannot be read as a whole."""

from __future__ import annotations


class NotUnderstood(ValueError):
    """A text cannot be read as a whole. The message is a sentence for the agent."""
