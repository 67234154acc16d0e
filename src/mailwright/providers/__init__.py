"""Providers: an outgoing message in, a `SendResult` out, never an exception. Nothing here uses the database."""
