"""Tasks on web pages that are shown as text."""
