"""Accept, claim, settle, defer: the single source of truth for what happens to a message."""
