"""Probe whether the database accepts writes. Only a commit reveals a full disk or a read-only server."""

import asyncio

from mailwright.domain.clock import SECOND, Clock, Instant
from mailwright.domain.errors import NotDurable
from mailwright.storage.database import PROMPT_SECONDS, Database
from mailwright.storage.statements import statement

OPEN_COUNTER = statement(__package__, "open_counter")

_COUNTER = "write_probe"
# How long a result is reused, so that the health checks of several load balancers share one commit.
PROBE_TTL: Instant = 2 * SECOND


async def probe_write(database: Database, clock: Clock) -> None:
    """Commit a small write the same way as an accept does, or raise `NotDurable`."""
    expires_at = clock.now() + 1
    await database.transact(
        lambda tx: tx.count(OPEN_COUNTER, name=_COUNTER, expires_at=expires_at), within=PROMPT_SECONDS
    )


class WriteProbe:
    """Runs the probe at most once per `PROBE_TTL`, for any number of callers."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._lock = asyncio.Lock()
        self._probed_at: Instant | None = None
        self._failure: NotDurable | None = None

    async def find_failure(self) -> NotDurable | None:
        """Return the error if writes fail, or None if they succeed."""
        async with self._lock:
            now = self._clock.now()
            # If the clock was set back, probe again instead of reusing the old result.
            if self._probed_at is None or not 0 <= now - self._probed_at < PROBE_TTL:
                self._failure = await self._probe()
                self._probed_at = self._clock.now()
            return self._failure

    async def _probe(self) -> NotDurable | None:
        try:
            await probe_write(self._database, self._clock)
        except NotDurable as error:
            return error
        return None
