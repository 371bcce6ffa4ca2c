"""Critics and reward models on the hidden states of a language model."""
