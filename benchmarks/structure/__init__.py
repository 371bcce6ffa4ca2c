"""Structure of the project: folders, imports, the way to a loss, settings and words."""
