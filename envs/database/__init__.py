"""Databases: questions and changes in SQL, on generated databases."""
