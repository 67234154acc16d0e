"""Keeping house beside the sends: locks are renewed, the dead are taken over from, doubts decided."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from mailwright.audience.status import SoftBounces
from mailwright.domain.clock import MINUTE, SECOND, Clock, Instant
from mailwright.domain.errors import NotDurable
from mailwright.domain.message import Claimed
from mailwright.events.reports import MOST_FORGOTTEN, forget
from mailwright.outbox.claim import Claims
from mailwright.outbox.in_doubt import InDoubtHandler
from mailwright.outbox.ledger import DatabaseLedger
from mailwright.outbox.workers import WorkerPresence, WorkerRegistry
from mailwright.storage.database import Database
from mailwright.storage.partitions import ensure_event_partitions

PRESENCE_EVERY: Instant = 5 * SECOND
TIDY_EVERY: Instant = 10 * MINUTE
# Old reports go in portions; after so many of them the rest waits for the next time.
MOST_PORTIONS = 20


@dataclass(frozen=True, slots=True)
class MaintenanceServices:
    """The parts that need looking after."""

    database: Database
    claims: Claims
    doubts: InDoubtHandler
    ledger: DatabaseLedger
    registry: WorkerRegistry
    soft: SoftBounces


class Maintenance:
    """Everything that must happen now and then, whether or not there is mail."""

    def __init__(self, clock: Clock, duties: MaintenanceServices, lock_ttl: Instant) -> None:
        self._clock = clock
        self._duties = duties
        self._renew_every = lock_ttl // 3
        self._last: dict[str, Instant] = {}
        self.suspects_wait = False
        self.has_decided = False  # doubts, since somebody last asked: what is sent again is due at once
        self.renewed: dict[int, Instant] = {}  # until when what was held at the last renewal is held, if ever renewed

    async def tick(self, held: Callable[[], Iterable[Claimed]], presence: Sequence[WorkerPresence]) -> None:
        """One round; each duty when its time has come."""
        if self._is_time("renew", self._renew_every):
            await self._renew([*held()])
        if self._is_time("presence", PRESENCE_EVERY):
            await self._duties.registry.report(*presence)
        await self.look_after_the_dead()
        if self._is_time("tidy", TIDY_EVERY):
            await self._duties.ledger.forget_expired()
            await self._duties.registry.delete_lost()
            await self._forget_reports()
            await ensure_event_partitions(self._duties.database, self._clock.now())

    async def look_after_the_dead(self) -> None:
        await self._duties.doubts.mark_lost_attempts()
        if await self._duties.doubts.decide_due():
            self.has_decided = True
        self.suspects_wait = await self._duties.claims.has_suspects()

    async def _renew(self, held: Sequence[Claimed]) -> None:
        before = {key: self.renewed[key] for key in (each.message_key for each in held) if key in self.renewed}
        try:
            self.renewed = before | await self._duties.claims.renew(held)
        except NotDurable:
            # First thing when the database is back: nobody must take over from a worker that is alive.
            self._last["renew"] -= self._renew_every
            raise

    async def _forget_reports(self) -> None:
        """Also where no more reports come in: whoever adds them takes old ones away only then."""
        for _ in range(MOST_PORTIONS):
            if await forget(self._duties.database, self._duties.soft, self._clock.now()) < MOST_FORGOTTEN:
                return

    async def leave(self) -> None:
        await self._duties.registry.deregister()

    def _is_time(self, duty: str, every: Instant) -> bool:
        now = self._clock.now()
        last = self._last.setdefault(duty, now if duty == "renew" else now - every)
        # A clock that was set back must not postpone the duty by as much.
        if 0 <= now - last < every:
            return False
        self._last[duty] = now
        return True
