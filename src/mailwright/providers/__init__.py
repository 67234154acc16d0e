"""Providers: each takes an outgoing message and returns a `SendResult`, never raises, and never uses the database."""
