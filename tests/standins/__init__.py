"""Stand-ins: servers of our own that speak a real protocol over real sockets and fail on request."""
