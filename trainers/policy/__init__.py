"""A causal language model that generates and scores actions."""
