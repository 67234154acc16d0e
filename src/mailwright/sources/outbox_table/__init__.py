"""Email that an application writes to a table of its own database, in the same transaction as its other changes."""
