"""A shell over a file tree in memory."""
