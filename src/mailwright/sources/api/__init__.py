"""Transactional mail: an application asks over HTTP, one message at a time or many at once."""
