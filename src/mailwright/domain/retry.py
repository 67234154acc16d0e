"""Retry policies: number of attempts, delays between them, and jitter."""

import hashlib

from mailwright.domain.clock import HOUR, MINUTE, SECOND, Instant
from mailwright.domain.lazy_dataclass import dataclass

JITTER = 0.25
# While a provider is down, its messages are due again after at most this long, so that they resume soon.
LONGEST_OUTAGE_DELAY: Instant = 30 * SECOND


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    name: str
    max_attempts: int
    delays: tuple[Instant, ...]
    # Providers whose outages count as attempts, because a specification defines how often and when to retry.
    counts_outages_of: tuple[str, ...] = ()
    # Whether every response that refuses a message for now counts as an attempt, as an external queue requires.
    counts_every_response: bool = False
    # Whether a permanent rejection also becomes a dead letter, as a specification requires.
    keeps_rejections: bool = False

    def delay(self, message_id: str, attempts: int, at_least: Instant | None = None) -> Instant:
        """Return the delay after `attempts` completed attempts. A provider's retry-after can only lengthen it."""
        base = self.delays[min(attempts, len(self.delays)) - 1] if attempts else self.delays[0]
        return max(round(base * (1 + JITTER * spread(message_id, attempts))), at_least or 0)

    def is_exhausted(self, attempts: int) -> bool:
        return attempts >= self.max_attempts


STANDARD = RetryPolicy("standard", 5, (SECOND, 5 * SECOND, 30 * SECOND, 2 * MINUTE, 10 * MINUTE))
# The first attempt, and a retry after each delay.
ARTICLES = RetryPolicy(
    "articles", 4, (SECOND, 4 * SECOND, 10 * SECOND), counts_outages_of=("sendgrid",), keeps_rejections=True
)
NOTIFICATIONS = RetryPolicy("notifications", 3, (0, 2 * SECOND, 7 * SECOND))
# An external queue decides when and how often to retry, so this policy never gives up, and delays a retry only if the
# provider requests it. The last delay is never used for retries; it limits the delay of a throttled message.
OUTSIDE = RetryPolicy("outside", 1_000, (*[0] * 1_000, 7 * SECOND), counts_every_response=True)

# The schedule for deferrals by the receiving server or because a provider is down. The last delay repeats until the
# message expires. Greylisting lasts 5 to 15 minutes, so it is over after the first, fast retries.
DEFERRALS = RetryPolicy("deferrals", 1_000_000, (*STANDARD.delays, 15 * MINUTE, 30 * MINUTE, HOUR))

POLICIES = {policy.name: policy for policy in (STANDARD, ARTICLES, NOTIFICATIONS, OUTSIDE)}


def spread(message_id: str, attempts: int) -> float:
    """Return a pseudo-random number in [-1, 1) that is the same for the same message and attempt."""
    digest = hashlib.blake2b(f"{message_id}:{attempts}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**63 - 1
