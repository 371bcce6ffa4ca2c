"""Helpers that the contract is built on."""
