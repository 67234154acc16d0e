"""Write messages to a local maildir."""
