"""Critics: what reads values off a model."""
