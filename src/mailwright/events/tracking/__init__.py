"""First-party opens and clicks: redirects, the spool that survives a crash, and their way into the events."""
