"""Matrix games: simultaneous choices with a table of payoffs."""
