"""Economic games: guessing averages and auctions."""
