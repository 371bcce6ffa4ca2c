"""Grid worlds."""
