"""Travel planning under constraints in a fictional country."""
