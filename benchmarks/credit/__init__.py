"""Estimators of advantages and critics beside exact or sampled values."""
