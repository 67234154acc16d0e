"""The rate limit of the Notion API, shared by all processes on the same database."""

from mailwright.domain.clock import Clock
from mailwright.domain.permits import SendRate
from mailwright.outbox.ledger import Ledger

# Slightly slower than the three requests per second that Notion allows, because requests of several processes arrive
# less evenly than they were sent.
PACE = SendRate("mailwright:pace:notion", 350_000, "notion_rate")


class SharedRateLimit:
    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        """`clock` must be the clock of the ledger."""
        self._ledger = ledger
        self._clock = clock

    async def seconds_to_wait(self) -> float:
        """Reserve a slot and return the number of seconds until then."""
        booking = await self._ledger.book((PACE,), 1, {})
        return max(0.0, booking.slots[0] / 1_000_000 - self._clock.now() / 1_000)
