"""A proposer writes tasks that the environment verifies, and solvers solve them."""
