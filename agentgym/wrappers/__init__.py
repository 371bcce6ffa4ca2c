"""Wrappers: one a file, each a `gymnasium.Wrapper` over a text environment."""
