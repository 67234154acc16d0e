"""Renew leases, recover the work of lost workers, resolve messages in doubt and delete old data."""

from collections.abc import Callable, Iterable, Sequence

from mailwright.audience.status import SoftBounces
from mailwright.domain.clock import MINUTE, SECOND, Clock, Instant
from mailwright.domain.errors import NotDurable
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.message import Claimed
from mailwright.events.reports import MOST_FORGOTTEN, forget
from mailwright.outbox.accepted_counts import merge_accepted_counts
from mailwright.outbox.claim import Claims
from mailwright.outbox.frequency import delete_old_sends
from mailwright.outbox.in_doubt import InDoubtHandler
from mailwright.outbox.ledger import DatabaseLedger
from mailwright.outbox.workers import WorkerPresence, WorkerRegistry
from mailwright.storage.database import Database
from mailwright.storage.partitions import ensure_event_partitions

PRESENCE_EVERY: Instant = 5 * SECOND
TIDY_EVERY: Instant = 10 * MINUTE
# Old reports are deleted in batches, at most this many at a time.
MAX_BATCHES = 20
# Enough for 800 accepting transactions per second.
MAX_MERGES = 100


@dataclass(frozen=True, slots=True)
class MaintenanceServices:
    """The collaborators of maintenance."""

    database: Database
    claims: Claims
    doubts: InDoubtHandler
    ledger: DatabaseLedger
    registry: WorkerRegistry
    soft: SoftBounces


class Maintenance:
    """Periodic tasks that run whether or not there are messages to send."""

    def __init__(self, clock: Clock, services: MaintenanceServices, lease: Instant) -> None:
        self._clock = clock
        self.services = services
        self._renew_every = lease // 3
        self._last: dict[str, Instant] = {}
        self._reported: list[tuple[object, ...]] = []  # The state of the providers that was reported last.
        self.has_suspects = False
        self.has_decided = False  # Set when messages in doubt were resolved, because resends are due at once.
        self.renewed: dict[int, Instant] = {}  # When the renewed leases end, by message.

    async def tick(
        self, leased: Callable[[], Iterable[Claimed]], presence: Sequence[WorkerPresence], *, tidies: bool = True
    ) -> None:
        """Run each maintenance task that is due. `tidies`: also delete old data."""
        if self._is_time("renew", self._renew_every):
            await self._renew([*leased()])
        state = [each.state for each in presence]
        if self._is_time("presence", PRESENCE_EVERY) or state != self._reported:
            self._reported = state
            await self.services.registry.report(*presence)
        await self.recover_lost_work()
        if tidies and self._is_time("tidy", TIDY_EVERY):
            await self.services.ledger.forget_expired()
            await self.services.registry.delete_lost()
            await self._forget_reports()
            await delete_old_sends(self.services.database, self._clock.now())
            await self._merge_counts()
            await ensure_event_partitions(self.services.database, self._clock.now())

    async def recover_lost_work(self) -> None:
        """Take over the attempts of crashed workers and resolve messages in doubt."""
        found = await self.services.claims.find_lost_work()
        if found.has_lost_attempts:
            await self.services.doubts.mark_lost_attempts()
        # An attempt through a provider that sends no reports is due as soon as it is in doubt.
        if (found.has_lost_attempts or found.has_due_doubts) and await self.services.doubts.decide_due():
            self.has_decided = True
        self.has_suspects = bool(found.has_suspects)

    async def sign_off(self, presence: Sequence[WorkerPresence]) -> None:
        """Remove this worker from the list of active workers."""
        await self.services.registry.deregister(*presence)

    async def _renew(self, leased: Sequence[Claimed]) -> None:
        kept = {key: self.renewed[key] for key in (claimed.message_key for claimed in leased) if key in self.renewed}
        try:
            self.renewed = kept | await self.services.claims.renew(leased)
        except NotDurable:
            # After a database failure, renew leases first, so that no other worker takes over from a live one.
            self._last["renew"] -= self._renew_every
            raise

    async def _forget_reports(self) -> None:
        """Delete old reports. Adding a report also deletes old ones, but there may be no new reports."""
        for _ in range(MAX_BATCHES):
            if await forget(self.services.database, self.services.soft, self._clock.now()) < MOST_FORGOTTEN:
                return

    async def _merge_counts(self) -> None:
        for _ in range(MAX_MERGES):
            if not await merge_accepted_counts(self.services.database, self._clock.now()):
                return

    def _is_time(self, duty: str, every: Instant) -> bool:
        now = self._clock.now()
        last = self._last.setdefault(duty, now if duty == "renew" else now - every)
        # If the clock was set back, run the task now instead of postponing it.
        if 0 <= now - last < every:
            return False
        self._last[duty] = now
        return True
