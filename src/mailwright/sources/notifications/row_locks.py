"""Keep the locks of a worker on the rows of a notification queue while their messages wait or are being sent."""

from collections.abc import Sequence
from typing import Any

from mailwright.domain.clock import Clock, Instant
from mailwright.domain.errors import NotDurable
from mailwright.outbox import parking
from mailwright.sources.failing_rows import FailingRows
from mailwright.sources.notifications import links, times
from mailwright.sources.notifications.links import MessageLink
from mailwright.sources.notifications.queue import NotificationQueue
from mailwright.sources.notifications.results import result_of
from mailwright.sources.notifications.statuses import MessageLinkState
from mailwright.storage.database import Database
from mailwright.storage.hot import Runner
from mailwright.storage.statements import statement

RENEW_LINKS = statement(__package__, "renew_links")

# Locks renewed in one write, as many as one statement takes as values (`storage/hot.py`).
BATCH = 250
# Locks are renewed after a third of their lifetime.
RENEWALS_PER_LOCK = 3


class RowLocks:
    def __init__(
        self,
        database: Database,
        clock: Clock,
        queue: NotificationQueue,
        failing: FailingRows,
        *,
        worker: str,
        lifetime: Instant,
    ) -> None:
        self._database = database
        self._clock = clock
        self._queue = queue
        self._failing = failing
        self._worker = worker
        self._renew_every = lifetime // RENEWALS_PER_LOCK

    async def count(self) -> int:
        """Count the rows that this worker has locked."""
        async with self._database.read() as tx:
            return await links.count_locked(tx, self._queue.name, self._worker)

    async def renew(self) -> None:
        """Renew the locks of rows whose messages wait or are being sent."""
        now = self._clock.now()
        before, at = times.format_time(now - self._renew_every), times.format_time(now)
        async with self._database.read() as tx:
            held = await links.find_locked(tx, self._queue.name, self._worker, before, BATCH)
        if not held:
            return
        renewed = await self._renew_in_queue(
            [link for link in held if not self._failing.contains(link.row_key, now)], at
        )
        rows = [_lock_row(link) for link in held if link.notification_id in renewed]
        if rows:
            await self._database.transact(lambda tx: tx.count(RENEW_LINKS, held=rows, at=at))

    async def _renew_in_queue(self, held: Sequence[MessageLink], at: str) -> set[int]:
        if not held:
            return set()
        try:
            return await self._queue.renew_locks(held, at)
        except NotDurable:
            raise
        except Exception as error:
            if len(held) == 1:
                self._failing.add(held[0].row_key, self._clock.now(), held[0].notification_id, error)
                return set()
        return {key for link in held for key in await self._renew_in_queue([link], at)}

    async def release(self) -> int:
        """Before shutdown: park messages that were not started and unlock their rows for other workers."""
        async with self._database.read() as tx:
            held = await links.find_locked(
                tx, self._queue.name, self._worker, times.format_time(self._clock.now()), 1_000_000
            )
        if not held:
            return 0

        async def park(tx: Runner) -> list[MessageLink]:
            parked = await parking.park(tx, [link.message_key for link in held if result_of(link) is None])
            free = [link for link in held if link.message_key in parked]
            await links.end_links(tx, [(link, MessageLinkState.WAITING) for link in free])
            return free

        free = await self._database.transact(park)
        await self._queue.unlock((link.notification_id, link.locked_by, link.locked_at) for link in free)
        return len(free)


def _lock_row(link: MessageLink) -> dict[str, Any]:
    return {"id": link.id, "locked_by": link.locked_by, "locked_at": link.locked_at}
