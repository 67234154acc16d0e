"""A source that watches a folder."""
