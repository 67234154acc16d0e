"""Provider quotas: the remaining quota that each provider reports, and the number of messages sent since."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import delete, insert, select, update

from mailwright.domain.clock import DAY, HOUR, Clock, Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.permits import QUOTA_EXHAUSTED, QuotaPeriod, QuotaSnapshot, quota_counter, quota_lock_name
from mailwright.outbox import defer
from mailwright.outbox.ledger import LOCK_COUNTER, NEVER, OPEN_COUNTER
from mailwright.storage.database import Database, Readable, Transaction
from mailwright.storage.statements import statement
from mailwright.storage.tables import counters, provider_configurations, quotas, workers

COUNT_LEASED = statement(__package__, "count_leased")

# After this many failed syncs, a reported rate is no longer applied, because it may have changed. If the actual rate is
# lower, the provider throttles.
STALE_AFTER = 3
# How long the counter of a sync is kept. It is read as long as that sync's quota is in use.
COUNTER_RETENTION: Instant = 2 * DAY


@dataclass(frozen=True, slots=True)
class QuotaReport:
    """The quota that one provider reported. A field of None means that the provider has no such limit."""

    provider: str
    remaining: int | None
    limit_per_day: int | None = None
    rate_per_second: int | None = None
    detail: str = ""
    # The parts of `remaining`, for forecasts. The hourly and the daily quota are renewed; the quota of a plan is not.
    left_today: int | None = None
    limit_per_hour: int | None = None
    left_this_hour: int | None = None
    left_in_plan: int | None = None


@dataclass(frozen=True, slots=True)
class ProviderQuota:
    """The last known quota of a provider."""

    provider: str
    remaining: int | None
    sent_since: int  # Messages sent since the last sync, by all providers of that sync.
    limit_per_day: int | None
    rate_per_second: int | None
    detail: str
    synced_at: Instant
    failed_at: Instant | None
    failure: str | None
    failed_syncs: int  # Consecutive failures.

    @property
    def is_rate_kept(self) -> bool:
        return self.rate_per_second is not None and self.failed_syncs < STALE_AFTER


@dataclass(frozen=True, slots=True)
class RouteRate:
    """The rate of the whole route that keeps this provider within its own rate."""

    provider: str
    per_second: int


@dataclass(frozen=True, slots=True)
class PreSyncState:
    """The counters just before a sync, to tell apart messages that were sent before and after the quota query."""

    previous_sync: Instant | None
    counted_before: int
    in_flight: int


async def read_pre_sync_state(database: Database, providers: Collection[str]) -> PreSyncState:
    async with database.read() as tx:
        previous = await _synced_at(tx, providers)
        counted = 0 if previous is None else await _used(tx, quota_counter(quota_lock_name(providers), previous))
        [in_flight] = await tx.run(COUNT_LEASED)
    return PreSyncState(previous, counted, in_flight.messages)


async def record_sync(database: Database, clock: Clock, reports: Sequence[QuotaReport], before: PreSyncState) -> bool:
    """Record the reports of all providers, and end quota deferrals. Return False if another sync was faster."""
    now = clock.now()
    names = [report.provider for report in reports]
    turn = quota_lock_name(names)
    async with database.write() as tx:
        await tx.run(OPEN_COUNTER, name=turn, expires_at=NEVER)
        await tx.run(LOCK_COUNTER, name=turn)
        if await _synced_at(tx, names) != before.previous_sync:
            return False
        await tx.execute(delete(quotas).where(quotas.c.provider.in_(names)))
        await tx.execute(insert(quotas), [_row(report, before, now) for report in reports])
        if before.previous_sync is not None:
            kept = counters.c.name == quota_counter(turn, before.previous_sync)
            await tx.execute(update(counters).where(kept).values(expires_at=now + COUNTER_RETENTION))
        if any(report.remaining is None or report.remaining > 0 for report in reports):
            await defer.end_deferrals_for(tx, QUOTA_EXHAUSTED)
    return True


async def end_quota_deferrals(database: Database) -> None:
    """End quota deferrals again, because workers may since have deferred lanes based on the previous quota."""
    async with database.write() as tx:
        await defer.end_deferrals_for(tx, QUOTA_EXHAUSTED)


async def record_failure(database: Database, clock: Clock, provider: str, reason: str) -> None:
    """Record a failed sync. The previous quota stays in use."""
    async with database.write() as tx:
        failed = {"failed_at": clock.now(), "failure": reason[:500], "failed_syncs": quotas.c.failed_syncs + 1}
        await tx.execute(update(quotas).where(quotas.c.provider == provider).values(**failed))


async def record_rates(database: Database, clock: Clock, reports: Sequence[QuotaReport]) -> None:
    """Record only the rates, after a sync in which a provider failed. Quotas need reports from all providers."""
    first = PreSyncState(previous_sync=None, counted_before=0, in_flight=0)
    async with database.write() as tx:
        for report in reports:
            is_own = quotas.c.provider == report.provider
            renewed = {"rate_per_second": report.rate_per_second, "failed_at": None, "failure": None, "failed_syncs": 0}
            if not await tx.execute(update(quotas).where(is_own).values(**renewed).returning(quotas.c.provider)):
                await tx.execute(insert(quotas).values(**_row(report, first, clock.now())))


async def load_quotas(database: Database) -> list[ProviderQuota]:
    async with database.read() as tx:
        rows = await tx.execute(select(quotas).order_by(quotas.c.provider))
        named = {row.name for row in await tx.execute(select(provider_configurations.c.name))}
        # The providers of the installation are synced together, and each named provider alone.
        rounds: dict[str, list[str]] = {}
        for row in rows:
            rounds.setdefault(row.provider if row.provider in named else str(row.synced_at), []).append(row.provider)
        used = {
            row.provider: await _used(tx, quota_counter(quota_lock_name(names), row.synced_at))
            for names in rounds.values()
            for row in rows
            if row.provider in names
        }
    return [_quota_of_row(row, used[row.provider]) for row in rows]


async def load_quota_snapshot(
    database: Readable, providers: Collection[str], sync_every: Instant
) -> QuotaSnapshot | None:
    """Return the combined quota of a route, or None if one of its providers has no limit or none is known."""
    async with database.read() as tx:
        rows = await tx.execute(select(quotas).where(quotas.c.provider.in_(providers)))
    if len(rows) < len(providers) or len({row.synced_at for row in rows}) > 1:
        return None
    if not rows or any(row.remaining is None for row in rows):
        return None
    daily = [row.limit_per_day for row in rows]
    first = rows[0]
    remaining = max(0, sum(row.remaining for row in rows) - first.in_flight)
    periods = _periods(rows, first.in_flight)
    # If a provider has stopped the account, it reports less than the sum of its periods.
    is_explained = bool(periods) and min(period.left for period in periods) == remaining
    return QuotaSnapshot(
        providers=tuple(sorted(providers)),
        remaining=remaining,
        synced_at=first.synced_at,
        sync_every=sync_every,
        per_day=None if None in daily else sum(daily),
        previous_sync=first.previous_sync,
        counted_before=first.counted_before,
        periods=periods if is_explained else (),
    )


def _periods(rows: Sequence[Any], in_flight: int) -> tuple[QuotaPeriod, ...]:
    """Return the remaining quota per hour, day and plan, each only if every provider of the route reports it."""
    found = []
    for length, limit, left in (
        (HOUR, "limit_per_hour", "left_this_hour"),
        (DAY, "limit_per_day", "left_today"),
        (None, None, "left_in_plan"),
    ):
        lefts = [getattr(row, left) for row in rows]
        limits = [getattr(row, limit) if limit is not None else 0 for row in rows]
        if None not in lefts and None not in limits:
            found.append(QuotaPeriod(length, max(0, sum(lefts) - in_flight), sum(limits)))
    return tuple(found)


async def provider_rate(database: Readable, route: Mapping[str, int | None]) -> RouteRate | None:
    """Return the rate that keeps every provider of a route within its reported rate, or None if none is known.

    Providers that no worker can reach are ignored, because they get no messages.
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
    """Compute the rate of a route. In a failover route, it is the first provider's rate.

    In a weighted route, it is the highest rate at which each provider's share stays within that provider's rate.
    """
    if not route:
        return None
    first, *_ = route
    if route[first] is None:
        return RouteRate(first, rates[first]) if first in rates else None
    whole = sum(weight or 1 for weight in route.values())
    rates_of_route = [
        RouteRate(name, max(1, rates[name] * whole // (weight or 1))) for name, weight in route.items() if name in rates
    ]
    return min(rates_of_route, key=lambda rate: rate.per_second, default=None)


async def _synced_at(tx: Transaction, providers: Collection[str]) -> Instant | None:
    """Return the time of the last sync of exactly these providers, or None."""
    rows = await tx.execute(select(quotas.c.synced_at).where(quotas.c.provider.in_(providers)))
    times = {int(row.synced_at) for row in rows}
    return times.pop() if len(rows) == len(providers) and len(times) == 1 else None


async def _used(tx: Transaction, name: str) -> int:
    rows = await tx.execute(select(counters.c.used).where(counters.c.name == name))
    return int(rows[0].used) if rows else 0


def _row(report: QuotaReport, before: PreSyncState, now: Instant) -> dict[str, Any]:
    return {
        "provider": report.provider,
        "remaining": report.remaining,
        "limit_per_day": report.limit_per_day,
        "rate_per_second": report.rate_per_second,
        "detail": report.detail,
        "left_today": report.left_today,
        "limit_per_hour": report.limit_per_hour,
        "left_this_hour": report.left_this_hour,
        "left_in_plan": report.left_in_plan,
        "synced_at": now,
        "in_flight": before.in_flight,
        "previous_sync": before.previous_sync,
        "counted_before": before.counted_before,
        "failed_at": None,
        "failure": None,
        "failed_syncs": 0,
    }


def _quota_of_row(row: Any, used: int) -> ProviderQuota:
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
