"""What bulk messages leave free, so that a transactional message finds a connection even if the provider is slow."""

from typing import Final

# The share that bulk messages never use.
RESERVED_SHARE: Final = 0.1
# Nothing is reserved of less than this.
LEAST_TO_RESERVE: Final = 5


def reserved(capacity: int) -> int:
    return max(1, int(capacity * RESERVED_SHARE)) if capacity >= LEAST_TO_RESERVE else 0
