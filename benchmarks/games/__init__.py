"""Learning in games of several agents."""
