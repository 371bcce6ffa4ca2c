"""Action parsing, argument checks, caching, files, serialisation and token tries."""
