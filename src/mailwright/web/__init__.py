"""The HTTP API, the dashboard and the public pages. They contain no business rules."""
