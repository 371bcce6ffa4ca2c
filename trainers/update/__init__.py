"""The policy update: losses, gradient accumulation, behaviour cloning."""
