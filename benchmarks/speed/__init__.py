"""Speed and memory of environments, estimators, generation, training and serving."""
