"""Contacts, lists, subscriptions, suppressions, segments and imports."""
