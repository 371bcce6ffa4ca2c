"""Small environments about numbers."""
