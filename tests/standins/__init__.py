"""Stand-ins: test servers that use a real protocol over real sockets and fail on request."""
