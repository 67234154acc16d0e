"""Messages that applications submit through the HTTP API, one or many at a time."""
