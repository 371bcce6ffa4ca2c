"""Recipe hooks: replay, learned rewards, preferences and data sets beside the training loop."""
