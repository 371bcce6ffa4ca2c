"""Chess against built-in opponents: full games and endgames (requires the extra `chess`)."""
