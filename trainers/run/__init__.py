"""A training run: set-up, checkpoints, logs, evaluation, signals, command line."""
