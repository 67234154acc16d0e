"""Email that an application writes to a table of its own database, in the transaction that it is about."""
