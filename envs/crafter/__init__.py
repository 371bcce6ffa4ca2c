"""Crafter: survive, collect and craft in an open world."""
