"""Medical interviews with a hidden case."""
