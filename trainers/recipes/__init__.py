"""Recipes: one file per algorithm."""
