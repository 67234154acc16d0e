"""Retry policies are data: how often, how long between, and how the delays spread."""

import hashlib
from dataclasses import dataclass

from mailwright.domain.clock import MINUTE, SECOND, Instant

JITTER = 0.25


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    name: str
    max_attempts: int
    delays: tuple[Instant, ...]

    def delay(self, message_id: str, attempts: int, at_least: Instant | None = None) -> Instant:
        """How long to wait after `attempts` completed attempts; a provider's wish lengthens it, never shortens it."""
        base = self.delays[min(attempts, len(self.delays)) - 1] if attempts else self.delays[0]
        return max(round(base * (1 + JITTER * spread(message_id, attempts))), at_least or 0)

    def is_exhausted(self, attempts: int) -> bool:
        return attempts >= self.max_attempts


STANDARD = RetryPolicy("standard", 5, (SECOND, 5 * SECOND, 30 * SECOND, 2 * MINUTE, 10 * MINUTE))
ARTICLES = RetryPolicy("articles", 4, (SECOND, 4 * SECOND, 10 * SECOND))  # one attempt after each delay
NOTIFICATIONS = RetryPolicy("notifications", 3, (0, 2 * SECOND, 7 * SECOND))
# Somebody else's queue says when and how often: here a mail is never given up, and waits for what its provider asks
# for only. The last delay is reached by no attempt; it bounds how long a throttled mail waits.
OUTSIDE = RetryPolicy("outside", 1_000, (*[0] * 1_000, 7 * SECOND))

POLICIES = {policy.name: policy for policy in (STANDARD, ARTICLES, NOTIFICATIONS, OUTSIDE)}


def spread(message_id: str, attempts: int) -> float:
    """A number in [-1, 1) that looks random and is the same on every replay."""
    digest = hashlib.blake2b(f"{message_id}:{attempts}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**63 - 1
