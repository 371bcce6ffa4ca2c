"""Action parsing, argument checks, caching, serialisation and token tries."""
