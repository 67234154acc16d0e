"""Webhooks in the formats of other services, read by the programs of these services."""
