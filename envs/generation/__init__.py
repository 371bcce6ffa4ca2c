"""Generation of texts that are scored as a whole."""
