"""Campaigns: one piece of content for many contacts, in a queue that knows why it waits."""
