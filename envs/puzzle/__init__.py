"""Single-player puzzles."""
