"""Retry policies: number of attempts, delays between them, and jitter."""

import hashlib
from dataclasses import dataclass

from mailwright.domain.clock import HOUR, MINUTE, SECOND, Instant

JITTER = 0.25
# While a provider is down, its messages are due again after at most this long, so that they resume soon.
LONGEST_OUTAGE_DELAY: Instant = 30 * SECOND


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    name: str
    max_attempts: int
    delays: tuple[Instant, ...]
    # Providers whose outages count as attempts, because a contract says how often and when to retry.
    counts_outages_of: tuple[str, ...] = ()
    # Whether a permanent rejection becomes a dead letter too, because a contract says so.
    keeps_rejections: bool = False

    def delay(self, message_id: str, attempts: int, at_least: Instant | None = None) -> Instant:
        """Return the delay after `attempts` completed attempts. A provider's retry-after can only lengthen it."""
        base = self.delays[min(attempts, len(self.delays)) - 1] if attempts else self.delays[0]
        return max(round(base * (1 + JITTER * spread(message_id, attempts))), at_least or 0)

    def is_exhausted(self, attempts: int) -> bool:
        return attempts >= self.max_attempts


STANDARD = RetryPolicy("standard", 5, (SECOND, 5 * SECOND, 30 * SECOND, 2 * MINUTE, 10 * MINUTE))
# One attempt after each delay.
ARTICLES = RetryPolicy(
    "articles", 4, (SECOND, 4 * SECOND, 10 * SECOND), counts_outages_of=("sendgrid",), keeps_rejections=True
)
NOTIFICATIONS = RetryPolicy("notifications", 3, (0, 2 * SECOND, 7 * SECOND))
# An external queue decides when and how often to retry, so this policy never gives up and waits only if the provider
# asks for it. The last delay is never used for retries; it limits how long a throttled message waits.
OUTSIDE = RetryPolicy("outside", 1_000, (*[0] * 1_000, 7 * SECOND))

# The schedule of deferrals: a temporary rejection by the receiving side, or a provider that is down. The last delay
# repeats until the message's lifetime ends. Greylisting lasts 5 to 15 minutes, so it is over after the fast retries.
DEFERRALS = RetryPolicy("deferrals", 1_000_000, (*STANDARD.delays, 15 * MINUTE, 30 * MINUTE, HOUR))

POLICIES = {policy.name: policy for policy in (STANDARD, ARTICLES, NOTIFICATIONS, OUTSIDE)}


def spread(message_id: str, attempts: int) -> float:
    """Return a pseudo-random number in [-1, 1) that is the same for the same message and attempt."""
    digest = hashlib.blake2b(f"{message_id}:{attempts}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**63 - 1
