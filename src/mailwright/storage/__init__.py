"""Engines, tables and migrations. No code above this package depends on the database engine."""
