"""Tokens of language models: tokenizers, prompts, and actions token by token."""
