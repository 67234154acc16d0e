"""Outgoing webhooks: deliver the events of a tenant's messages to its endpoints, signed and at least once."""
