"""The policy: a causal language model that generates and scores actions."""
