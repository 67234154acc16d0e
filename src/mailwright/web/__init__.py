"""The HTTP API, the dashboard and the public pages. They read requests and write responses; rules are elsewhere."""
