"""A long diary, and questions about it."""
