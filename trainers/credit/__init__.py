"""Credit assignment: estimators of the advantage of every action token."""
