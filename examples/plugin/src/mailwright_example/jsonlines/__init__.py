"""A provider that writes JSON lines."""
