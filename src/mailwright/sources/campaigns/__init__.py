"""Campaigns: one piece of content for many contacts, sent in the order of a queue."""
