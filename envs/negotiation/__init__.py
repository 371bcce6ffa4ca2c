"""Negotiation games: players with different private values exchange messages and trade."""
