"""The pace at which Notion is asked, kept by all processes on the same database together."""

from mailwright.domain.clock import Clock
from mailwright.domain.permits import SendRate
from mailwright.outbox.ledger import Ledger

# A little slower than the three in a second that Notion allows: what several processes ask arrives less evenly than
# it left.
PACE = SendRate("mailer:pace:notion", 350_000, "notion_rate")


class SharedRateLimit:
    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        """`clock` is the ledger's own."""
        self._ledger = ledger
        self._clock = clock

    async def seconds_to_wait(self) -> float:
        """Until a moment that is given to nobody else."""
        booking = await self._ledger.book((PACE,), 1, {})
        return max(0.0, booking.slots[0] / 1_000_000 - self._clock.now() / 1_000)
