"""The registry of running workers and of the providers that each of them can reach."""

from collections.abc import Collection, Iterable, Sequence

import orjson
from sqlalchemy import delete, func, select, text

from mailwright.domain.clock import DAY, MINUTE, SECOND, Clock, Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.permits import Deferral, DeferReason
from mailwright.domain.provider_routes import ProviderRoutes
from mailwright.outbox.installation_values import load_value, store_value
from mailwright.outbox.provider_activity import add_sent
from mailwright.storage.database import Database, Readable, Transaction
from mailwright.storage.server_state import server_time
from mailwright.storage.statements import statement
from mailwright.storage.tables import deliveries, workers

REPORT_PRESENCE = statement(__package__, "report_presence")

# A worker that has not reported for this long is considered gone.
PRESENCE_TIMEOUT: Instant = 30_000
# A worker reports every 5 seconds. After two missed reports it is shown as silent.
SILENT_AFTER: Instant = 12 * SECOND
FORGET_AFTER: Instant = 10 * MINUTE
# The highest send rate is recorded only if it is at least this many messages per second, and used for a week.
MIN_RECORDED_RATE = 5.0
BEST_RATE_AGE: Instant = 7 * DAY
_BEST_RATE = "best_sending_rate"


@dataclass(frozen=True, slots=True)
class WorkerPresence:
    """The state of one provider as one worker reports it."""

    provider: str
    unavailable_until: Instant | None = None
    unavailable_reason: str | None = None
    worker: str = ""  # Set only when the registry is read.
    sent: int = 0  # Messages that the provider accepted from this worker. Set only when the worker reports.
    defer_reason: str = DeferReason.PROVIDER_UNAVAILABLE  # The reason, if the provider is unavailable.
    learned_rate: float | None = None  # Maximum messages per second after throttling, or None.
    seen_at: Instant = 0  # When the worker last reported. Set only when the registry is read.
    clock_skew: Instant | None = None  # How far the worker's clock is behind the database server's, or None.
    settings_version: str | None = None  # The stored settings that the worker uses. Set only when the registry is read.

    @property
    def is_unavailable(self) -> bool:
        """Whether the worker cannot use the provider now. The worker reports again as soon as that changes."""
        return self.unavailable_until is not None

    def is_silent(self, now: Instant) -> bool:
        """Whether the worker has missed its last reports, because it was killed, froze or lost the database."""
        return now - self.seen_at > SILENT_AFTER

    @property
    def state(self) -> tuple[object, ...]:
        """The values that other processes show about the provider. A change is reported at once."""
        is_slowed = self.learned_rate is not None
        return self.provider, self.unavailable_until, self.unavailable_reason, self.defer_reason, is_slowed


class WorkerRegistry:
    """Reports one worker's state. The table has a row for each pair of worker and provider."""

    def __init__(self, database: Database, clock: Clock, worker: str, *, settings_version: str | None = None) -> None:
        self._database = database
        self._clock = clock
        self._worker = worker
        self._settings_version = settings_version
        self._rows: set[str] = set()
        self._reported: dict[str, tuple[Instant, int]] = {}  # The last report of each provider: its time and messages.
        self._best = 0.0  # The highest send rate that this worker has recorded.

    async def report(self, *providers: WorkerPresence) -> None:
        now = self._clock.now()
        async with self._database.write() as tx:
            server = await server_time(tx, self._database.dialect)
            skew = None if server is None else server - self._clock.now()
            for presence in providers:
                self._rows.add(row := f"{self._worker}/{presence.provider}")
                await tx.run(
                    REPORT_PRESENCE,
                    worker=row,
                    provider=presence.provider,
                    now=now,
                    unavailable_until=presence.unavailable_until,
                    unavailable_reason=presence.unavailable_reason,
                    defer_reason=presence.defer_reason if presence.is_unavailable else None,
                    per_second=self._per_second(presence, now),
                    learned_rate=presence.learned_rate,
                    clock_skew=skew,
                    settings_version=self._settings_version,
                )
            await add_sent(tx, self._new_sent(providers), now)
            await self._record_best(tx, sum(self._per_second(presence, now) for presence in providers), now)
        self._reported = {presence.provider: (now, presence.sent) for presence in providers}

    async def deregister(self, *providers: WorkerPresence) -> None:
        """Remove the worker, and count the messages that its providers accepted since its last report."""
        async with self._database.write() as tx:
            await add_sent(tx, self._new_sent(providers), self._clock.now())
            await tx.execute(delete(workers).where(workers.c.worker_id.in_(self._rows)))

    async def delete_lost(self) -> None:
        async with self._database.write() as tx:
            await tx.execute(delete(workers).where(workers.c.seen_at < self._clock.now() - FORGET_AFTER))

    def _new_sent(self, providers: Iterable[WorkerPresence]) -> dict[str, int]:
        """Return how many messages each provider has accepted since the last report."""
        return {each.provider: each.sent - self._reported.get(each.provider, (0, 0))[1] for each in providers}

    async def _record_best(self, tx: Transaction, per_second: float, now: Instant) -> None:
        """Record the highest send rate of a worker, for forecasts while nothing is being sent."""
        if per_second <= max(self._best * 1.1, MIN_RECORDED_RATE):
            return
        self._best = per_second
        known = await _load_best(tx, now)
        if per_second <= known:
            return
        value = orjson.dumps({"perSecond": per_second, "at": now}).decode()
        await store_value(tx, _BEST_RATE, value)

    def _per_second(self, presence: WorkerPresence, now: Instant) -> float:
        """Return the send rate since the last report."""
        last, accepted = self._reported.get(presence.provider, (now, presence.sent))
        return (presence.sent - accepted) * SECOND / (now - last) if now > last else 0.0


async def list_present(database: Readable, now: Instant) -> list[WorkerPresence]:
    """List the recent reports of all workers about their providers."""
    async with database.read() as tx:
        return await load_present(tx, now)


async def load_present(tx: Transaction, now: Instant) -> list[WorkerPresence]:
    rows = await tx.execute(
        select(workers).where(workers.c.seen_at >= now - PRESENCE_TIMEOUT).order_by(workers.c.worker_id)
    )
    return [
        WorkerPresence(
            row.provider,
            row.unavailable_until,
            row.unavailable_reason,
            row.worker_id.rpartition("/")[0],
            defer_reason=row.defer_reason or DeferReason.PROVIDER_UNAVAILABLE,
            learned_rate=row.learned_rate,
            seen_at=row.seen_at,
            clock_skew=row.clock_skew,
            settings_version=row.settings_version,
        )
        for row in rows
    ]


@dataclass(frozen=True, slots=True)
class LostLeases:
    """Messages that workers claimed before they stopped. Other workers get them when the leases end."""

    messages: int
    until: Instant


async def find_lost_leases(tx: Transaction, now: Instant, lane: int | None = None) -> LostLeases | None:
    """Find the messages of a lane, or of all lanes, whose worker does not report any more."""
    d = deliveries.c
    responsive = [presence.worker for presence in await load_present(tx, now) if not presence.is_silent(now)]
    # A worker that has just started may claim before its first report.
    lost = select(func.count().label("messages"), func.max(d.claimable_at).label("until")).select_from(deliveries)
    lost = lost.where(text("locked_by IS NOT NULL"), d.locked_by.not_in(responsive), d.locked_at <= now - SILENT_AFTER)
    [row] = await tx.execute(lost if lane is None else lost.where(d.lane == lane))
    return LostLeases(row.messages, max(row.until, now)) if row.messages else None


def present_for(
    present: Sequence[WorkerPresence], routes: ProviderRoutes, tenant_id: int, source: str
) -> list[WorkerPresence]:
    """Return the reports about the providers that send the messages of this tenant and source."""
    own = routes.provider_of(tenant_id, source)
    if own is not None:
        return [presence for presence in present if presence.provider == own]
    return [presence for presence in present if presence.provider not in routes.providers]


def outage_of(present: Sequence[WorkerPresence], now: Instant) -> Deferral | None:
    """Return the deferral that applies to all messages if no worker can use any provider, or None if one can."""
    if not present or not all(presence.is_unavailable for presence in present):
        return None
    first = min(present, key=lambda presence: presence.unavailable_until or 0)
    return Deferral(max(first.unavailable_until or 0, now + SECOND), first.defer_reason)


def learned_rate_of(present: Iterable[WorkerPresence]) -> float | None:
    """Return the combined rate of all throttled workers, in messages per second, or None if none is throttled."""
    rates = [presence.learned_rate for presence in present if presence.learned_rate is not None]
    return sum(rates) if rates else None


async def presence_by_provider(
    database: Database, now: Instant, route: Iterable[str]
) -> dict[str, list[WorkerPresence]]:
    """Group the reports by provider. The route's providers come first, even those without a report."""
    by_provider: dict[str, list[WorkerPresence]] = {name: [] for name in route}
    for presence in await list_present(database, now):
        by_provider.setdefault(presence.provider, []).append(presence)
    return by_provider


async def best_rate(database: Readable, now: Instant) -> float:
    """Return the highest send rate of one worker in the last days, in messages per second, or 0 if none is recorded."""
    async with database.read() as tx:
        return await _load_best(tx, now)


async def _load_best(tx: Transaction, now: Instant) -> float:
    value = await load_value(tx, _BEST_RATE)
    best = None if value is None else orjson.loads(value)
    return float(best["perSecond"]) if best is not None and now - best["at"] <= BEST_RATE_AGE else 0.0


async def sending_rate(database: Readable, now: Instant, providers: Collection[str] | None = None) -> float:
    """Return the messages per second that all workers sent recently, through these providers if they are given."""
    is_recent = workers.c.seen_at >= now - PRESENCE_TIMEOUT
    if providers is not None:
        is_recent &= workers.c.provider.in_(providers)
    async with database.read() as tx:
        rows = await tx.execute(select(func.coalesce(func.sum(workers.c.per_second), 0)).where(is_recent))
    return float(rows[0][0])
