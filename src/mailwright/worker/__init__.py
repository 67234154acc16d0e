"""The worker: claim, admit, build, send and settle messages, and shut down gracefully on SIGTERM."""
