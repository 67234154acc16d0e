"""The loop: claim, gate, deliver, settle; drain on SIGTERM."""
