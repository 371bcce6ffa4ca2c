"""Teams: several roles that share the task of a single-agent environment."""
