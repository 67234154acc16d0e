"""Stand-ins: servers of our own that speak a real protocol over real sockets and fail when they are told to."""
