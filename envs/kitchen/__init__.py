"""A kitchen in which food cooks by itself while the agent works elsewhere."""
