"""Training: recipes, behaviour cloning, curricula and pre-trained models."""
