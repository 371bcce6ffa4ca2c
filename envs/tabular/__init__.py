"""Small tables, and the features of a regression on them."""
