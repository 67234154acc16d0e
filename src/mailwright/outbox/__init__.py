"""The outbox: accept, claim, settle and defer messages. It is the single source of truth about every message."""
