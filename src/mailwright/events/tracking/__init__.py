"""Our own tracking of opens and clicks: redirects, the crash-safe spool, and the task that stores its lines."""
