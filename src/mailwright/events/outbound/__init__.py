"""Outgoing webhooks: whoever wants to know what happens to a tenant's mail is told, signed, at least once."""
