"""Search: questions over a generated world of pages, or over its graph of facts."""
