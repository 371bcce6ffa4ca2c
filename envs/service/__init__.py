"""Customer service: tools over a database, a written policy and a simulated user."""
