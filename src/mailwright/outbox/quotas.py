"""Quotas: what the providers said is left, kept with the count of what was sent since."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, insert, select, update

from mailwright.domain.clock import DAY, Clock, Instant
from mailwright.domain.permits import QUOTA_EXHAUSTED, QuotaSnapshot, quota_counter, quota_lock_name
from mailwright.outbox import defer
from mailwright.outbox.ledger import NEVER, OPEN_COUNTER, READ_COUNTER
from mailwright.storage.database import Database, Transaction
from mailwright.storage.statements import statement
from mailwright.storage.tables import counters, quotas, workers

COUNT_LEASED = statement(__package__, "count_leased")

# A rate that a provider did not confirm so many times in a row may be another one by now: it is not kept any more, and
# the provider itself asks us to slow down where it has to.
STALE_AFTER = 3
# The counter of the sync before is read as long as the figure is trusted, and a while more.
COUNTER_KEPT: Instant = 2 * DAY


@dataclass(frozen=True, slots=True)
class QuotaReport:
    """What one provider said. None: it has no such limit."""

    provider: str
    remaining: int | None
    limit_per_day: int | None = None
    rate_per_second: int | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class ProviderQuota:
    """What is known of one provider's quota now."""

    provider: str
    remaining: int | None
    sent_since: int  # by all that were asked in the same round
    limit_per_day: int | None
    rate_per_second: int | None
    detail: str
    synced_at: Instant
    failed_at: Instant | None
    failure: str | None
    failed_syncs: int  # how often in a row it did not tell

    @property
    def is_rate_kept(self) -> bool:
        return self.rate_per_second is not None and self.failed_syncs < STALE_AFTER


@dataclass(frozen=True, slots=True)
class RouteRate:
    """So many mails a second leave by the whole route, so that this provider of it gets no more than it takes."""

    provider: str
    per_second: int


@dataclass(frozen=True, slots=True)
class PreSyncState:
    """How things stood just before the providers were asked: whatever is counted after this came after it."""

    previous_sync: Instant | None
    counted_before: int
    in_flight: int


async def read_pre_sync_state(database: Database, providers: Collection[str]) -> PreSyncState:
    async with database.read() as tx:
        previous = await _synced_at(tx, providers)
        counted = 0 if previous is None else await _used(tx, quota_counter(quota_lock_name(providers), previous))
        [in_flight] = await tx.run(COUNT_LEASED)
    return PreSyncState(previous, counted, in_flight.messages)


async def record_sync(database: Database, clock: Clock, told: Sequence[QuotaReport], before: PreSyncState) -> bool:
    """One round, all or none: false where somebody else's round came in between. What waited for quota may go on."""
    now = clock.now()
    names = [each.provider for each in told]
    turn = quota_lock_name(names)
    async with database.write() as tx:
        await tx.run(OPEN_COUNTER, name=turn, expires_at=NEVER)
        await tx.run(READ_COUNTER, name=turn)
        if await _synced_at(tx, names) != before.previous_sync:
            return False
        await tx.execute(delete(quotas).where(quotas.c.provider.in_(names)))
        await tx.execute(insert(quotas), [_row(each, before, now) for each in told])
        if before.previous_sync is not None:
            kept = counters.c.name == quota_counter(turn, before.previous_sync)
            await tx.execute(update(counters).where(kept).values(expires_at=now + COUNTER_KEPT))
        if any(each.remaining is None or each.remaining > 0 for each in told):
            await defer.end_deferrals_for(tx, QUOTA_EXHAUSTED)
    return True


async def end_quota_deferrals(database: Database) -> None:
    """Once more, for workers that counted by the figures before for another moment."""
    async with database.write() as tx:
        await defer.end_deferrals_for(tx, QUOTA_EXHAUSTED)


async def record_failure(database: Database, clock: Clock, provider: str, reason: str) -> None:
    """The old figure stays, and counting goes on from it."""
    async with database.write() as tx:
        failed = {"failed_at": clock.now(), "failure": reason[:500], "failed_syncs": quotas.c.failed_syncs + 1}
        await tx.execute(update(quotas).where(quotas.c.provider == provider).values(**failed))


async def record_rates(database: Database, clock: Clock, told: Sequence[QuotaReport]) -> None:
    """In a round in which others did not tell, these did. What is left is counted by whole rounds, a rate is not."""
    first = PreSyncState(previous_sync=None, counted_before=0, in_flight=0)
    async with database.write() as tx:
        for each in told:
            mine = quotas.c.provider == each.provider
            renewed = {"rate_per_second": each.rate_per_second, "failed_at": None, "failure": None, "failed_syncs": 0}
            if not await tx.execute(update(quotas).where(mine).values(**renewed).returning(quotas.c.provider)):
                await tx.execute(insert(quotas).values(**_row(each, first, clock.now())))


async def load_quotas(database: Database) -> list[ProviderQuota]:
    async with database.read() as tx:
        rows = await tx.execute(select(quotas).order_by(quotas.c.provider))
        rounds: dict[Instant, list[str]] = {}
        for row in rows:
            rounds.setdefault(row.synced_at, []).append(row.provider)
        used = {at: await _used(tx, quota_counter(quota_lock_name(names), at)) for at, names in rounds.items()}
    return [_known(row, used[row.synced_at]) for row in rows]


async def load_quota_snapshot(
    database: Database, providers: Collection[str], sync_every: Instant
) -> QuotaSnapshot | None:
    """What the providers of a route take together. None where one of them has no limit, or has not told of any."""
    async with database.read() as tx:
        rows = await tx.execute(select(quotas).where(quotas.c.provider.in_(providers)))
    if len(rows) < len(providers) or len({row.synced_at for row in rows}) > 1:
        return None
    if not rows or any(row.remaining is None for row in rows):
        return None
    daily = [row.limit_per_day for row in rows]
    first = rows[0]
    return QuotaSnapshot(
        providers=tuple(sorted(providers)),
        remaining=max(0, sum(row.remaining for row in rows) - first.in_flight),
        synced_at=first.synced_at,
        sync_every=sync_every,
        per_day=None if None in daily else sum(daily),
        previous_sync=first.previous_sync,
        counted_before=first.counted_before,
    )


async def provider_rate(database: Database, route: Mapping[str, int | None]) -> RouteRate | None:
    """The rate at which no provider of a route gets more than it said it takes in a second; None where none has said.

    A provider that no worker can reach carries nothing, so neither its rate nor its share of the mail counts.
    """
    q, w = quotas.c, workers.c
    confirmed = (q.provider.in_(route), q.rate_per_second > 0, q.failed_syncs < STALE_AFTER)
    async with database.read() as tx:
        rates = {
            row.provider: row.rate_per_second
            for row in await tx.execute(select(q.provider, q.rate_per_second).where(*confirmed))
        }
        seen = await tx.execute(select(w.provider, w.unavailable_until).where(w.provider.in_(route))) if rates else ()
    reached = {row.provider for row in seen if row.unavailable_until is None}
    lost = {row.provider for row in seen} - reached
    return route_rate(rates, {name: weight for name, weight in route.items() if name not in lost})


def route_rate(rates: Mapping[str, int], route: Mapping[str, int | None]) -> RouteRate | None:
    """Where providers are asked in order the first one carries the mail; by weight, each its share of it."""
    if not route:
        return None
    first, *_ = route
    if route[first] is None:
        return RouteRate(first, rates[first]) if first in rates else None
    whole = sum(weight or 1 for weight in route.values())
    found = [
        RouteRate(name, max(1, rates[name] * whole // (weight or 1))) for name, weight in route.items() if name in rates
    ]
    return min(found, key=lambda rate: rate.per_second, default=None)


async def _synced_at(tx: Transaction, providers: Collection[str]) -> Instant | None:
    """The last round of just these; None where they were not asked together yet."""
    rows = await tx.execute(select(quotas.c.synced_at).where(quotas.c.provider.in_(providers)))
    moments = {int(row.synced_at) for row in rows}
    return moments.pop() if len(rows) == len(providers) and len(moments) == 1 else None


async def _used(tx: Transaction, name: str) -> int:
    rows = await tx.execute(select(counters.c.used).where(counters.c.name == name))
    return int(rows[0].used) if rows else 0


def _row(told: QuotaReport, before: PreSyncState, now: Instant) -> dict[str, Any]:
    return {
        "provider": told.provider,
        "remaining": told.remaining,
        "limit_per_day": told.limit_per_day,
        "rate_per_second": told.rate_per_second,
        "detail": told.detail,
        "synced_at": now,
        "in_flight": before.in_flight,
        "previous_sync": before.previous_sync,
        "counted_before": before.counted_before,
        "failed_at": None,
        "failure": None,
        "failed_syncs": 0,
    }


def _known(row: Any, used: int) -> ProviderQuota:
    return ProviderQuota(
        provider=row.provider,
        remaining=row.remaining,
        sent_since=max(0, used),
        limit_per_day=row.limit_per_day,
        rate_per_second=row.rate_per_second,
        detail=row.detail,
        synced_at=row.synced_at,
        failed_at=row.failed_at,
        failure=row.failure,
        failed_syncs=row.failed_syncs,
    )
