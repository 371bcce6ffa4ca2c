"""Worlds that are drawn, read from a file or written by a language model."""
