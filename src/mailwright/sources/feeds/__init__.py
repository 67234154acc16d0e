"""Feeds that sequences and recurring campaigns follow: their new items, each used once."""
