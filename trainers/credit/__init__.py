"""Credit assignment: from trajectories and values to an advantage for every action token."""
