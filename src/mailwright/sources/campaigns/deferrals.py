"""Deferrals of campaigns that may be sent, although none of their messages can be sent yet."""

from collections.abc import Mapping, Sequence

from sqlalchemy import exists, select

from mailwright.domain.campaign import INDEFINITELY
from mailwright.domain.clock import Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.message import Source
from mailwright.domain.permits import Deferral
from mailwright.domain.provider_routes import ProviderRoutes
from mailwright.outbox.provider_configurations import load_routes
from mailwright.outbox.sending_hold import load_hold
from mailwright.outbox.workers import WorkerPresence, load_present, outage_of
from mailwright.storage.database import Transaction
from mailwright.storage.statements import statement
from mailwright.storage.tables import lane_deferrals, mailouts, queue_entries

LIST_DEFERRED_LANES = statement(__package__, "list_deferred_lanes")

# The default reason for a message that failed temporarily.
RETRY_SCHEDULED = "retry_scheduled"


async def load_lane_deferrals(tx: Transaction, now: Instant) -> dict[int, Deferral]:
    """Return for each lane the time when its first message is due, and the reason for the wait.

    While all sending is on hold, or no worker can use the provider of a lane, the lane has that reason.
    """
    if (hold := await load_hold(tx)) is not None:
        rows = await tx.execute(select(queue_entries.c.lane).where(queue_entries.c.completed_at.is_(None)))
        return {row.lane: Deferral(INDEFINITELY, hold.reason) for row in rows}
    found, outages = await load_message_deferrals(tx, now), await load_outages(tx, now)
    if not any(outages.by_provider.values()):
        return found
    for lane in await _undeferred_lanes(tx, now):
        if (outage := outages.of(lane)) is not None:
            found[lane] = outage
    return found


async def load_message_deferrals(tx: Transaction, now: Instant) -> dict[int, Deferral]:
    """Return for each lane that may send, but has no due message, when the first one is due and why it waits."""
    rows = await tx.run(LIST_DEFERRED_LANES, now=now)
    return {row.lane: Deferral(row.claimable_at, row.defer_reason) for row in rows}


async def load_outages(tx: Transaction, now: Instant) -> "LaneOutages":
    present, lanes = await load_present(tx, now), await load_lane_providers(tx)
    return LaneOutages(lanes, {name: outage_of(lanes.present(present, name), now) for name in lanes.names})


@dataclass(frozen=True, slots=True)
class LaneProviders:
    """The named providers of campaigns, by lane. Lanes without one use the provider of the installation."""

    routes: ProviderRoutes
    by_lane: Mapping[int, str]

    @property
    def names(self) -> frozenset[str | None]:
        return frozenset({None, *self.by_lane.values()})

    def provider_of(self, lane: int) -> str | None:
        return self.by_lane.get(lane)

    def present(self, present: Sequence[WorkerPresence], name: str | None) -> list[WorkerPresence]:
        """Return the reports about one provider, or about those of the installation."""
        named = self.routes.providers
        return [each for each in present if each.provider == name or (name is None and each.provider not in named)]


@dataclass(frozen=True, slots=True)
class LaneOutages:
    """The outages of the providers of campaigns."""

    lanes: LaneProviders
    by_provider: Mapping[str | None, Deferral | None]

    def of(self, lane: int) -> Deferral | None:
        return self.by_provider[self.lanes.provider_of(lane)]


async def load_lane_providers(tx: Transaction) -> LaneProviders:
    """Return the providers of the campaigns and mailouts in the queue."""
    routes = await load_routes(tx)
    if not routes.providers:
        return LaneProviders(routes, {})
    q = queue_entries.c
    is_mailout = exists().where(mailouts.c.campaign_key == q.campaign_key)
    queued = select(q.lane, q.tenant_id, is_mailout.label("is_mailout")).where(q.completed_at.is_(None))
    named = {
        row.lane: routes.provider_of(row.tenant_id, Source.MAILOUT if row.is_mailout else Source.CAMPAIGN)
        for row in await tx.execute(queued)
    }
    return LaneProviders(routes, {lane: name for lane, name in named.items() if name is not None})


async def _undeferred_lanes(tx: Transaction, now: Instant) -> list[int]:
    deferred = select(lane_deferrals.c.lane).where(lane_deferrals.c.deferred_until > now)
    rows = await tx.execute(
        select(queue_entries.c.lane).where(
            queue_entries.c.completed_at.is_(None), queue_entries.c.lane.not_in(deferred)
        )
    )
    return [row.lane for row in rows]
