"""Defer lanes and messages. Explanations, lists and forecasts read the deferrals that this module writes."""

from collections.abc import Collection, Sequence

from sqlalchemy import ColumnElement, delete, or_, select

from mailwright.domain.campaign import NON_LIMIT_REASONS
from mailwright.domain.clock import Instant
from mailwright.domain.lanes import Lane, lane_number
from mailwright.domain.message import Claimed
from mailwright.domain.permits import Deferral
from mailwright.outbox.queue_states import clear_deferral, record_deferral
from mailwright.storage.database import Database, Transaction
from mailwright.storage.statements import statement
from mailwright.storage.tables import lane_deferrals

DEFER = statement(__package__, "defer")
DEFER_LANE = statement(__package__, "defer_lane")
SPREAD_LANE = statement(__package__, "spread_lane")
END_CAP_DEFERRALS = statement(__package__, "end_cap_deferrals")
END_PROVIDER_DEFERRALS = statement(__package__, "end_provider_deferrals")
END_SNOOZE_DEFERRALS = statement(__package__, "end_snooze_deferrals")


async def defer_lane(database: Database, lane: int, reason: str, until: Instant) -> None:
    """Prevent workers from claiming from a lane until a time. One row defers any number of messages."""
    async with database.write() as tx:
        await record_lane_deferral(tx, lane, reason, until)


async def record_lane_deferral(tx: Transaction, lane: int, reason: str, until: Instant) -> None:
    """Defer a lane inside the caller's transaction. A limit never replaces a pause or a cancellation by a user."""
    await tx.run(DEFER_LANE, lane=lane, reason=reason, until=until)
    await record_deferral(tx, lane, reason, until, is_limit=reason not in NON_LIMIT_REASONS)


async def end_lane_deferral(tx: Transaction, lane: int, *, but: Sequence[str] = ()) -> None:
    """End a lane's deferral early, unless it has one of the reasons in `but`."""
    await end_deferrals(tx, lane_deferrals.c.lane == lane, lane_deferrals.c.defer_reason.not_in(but))


async def end_lane_deferral_for(tx: Transaction, lane: int, reason: str) -> None:
    """End a lane's deferral early if it has this reason."""
    await end_deferrals(tx, lane_deferrals.c.lane == lane, lane_deferrals.c.defer_reason == reason)


async def end_deferrals_for(tx: Transaction, reason: str) -> None:
    """End all deferrals that have this reason."""
    await end_deferrals(tx, lane_deferrals.c.defer_reason == reason)


async def end_deferrals(tx: Transaction, *which: ColumnElement[bool]) -> None:
    """End the deferrals of the lanes that meet all conditions."""
    rows = await tx.execute(delete(lane_deferrals).where(*which).returning(lane_deferrals.c.lane))
    await clear_deferral(tx, [row.lane for row in rows])


async def reopen_lanes(tx: Transaction, lane: int) -> None:
    """End the deferral of a lane by a limit, because permits were returned.

    The tenant's other lanes with the same deferral are opened too, so that its campaigns keep their order. The stored
    state of the campaigns changes only when one of their messages begins.
    """
    held, its = lane_deferrals.c, Lane(lane)
    by_limit = select(lane_deferrals).where(held.lane == lane, held.defer_reason.not_in(NON_LIMIT_REASONS))
    for row in await tx.execute(by_limit):
        is_same = (held.defer_reason == row.defer_reason, held.deferred_until == row.deferred_until)
        await tx.execute(delete(lane_deferrals).where(_is_of_tenant(its), *is_same))


async def reopen_limited_lanes(database: Database, lanes: Collection[int], reasons: Collection[str]) -> None:
    """End the deferrals that have one of these reasons, in the lanes of the same tenants and priorities."""
    held = lane_deferrals.c
    which = (or_(*(_is_of_tenant(Lane(lane)) for lane in lanes)), held.defer_reason.in_(reasons))
    async with database.read() as tx:
        is_deferred = bool(await tx.execute(select(held.lane).where(*which).limit(1)))
    if is_deferred:
        async with database.write() as tx:
            await tx.execute(delete(lane_deferrals).where(*which))


def _is_of_tenant(lane: Lane) -> ColumnElement[bool]:
    """Return whether a lane has the tenant and the priority of another one."""
    first, after = (lane_number(lane.priority, lane.tenant_id + number) for number in (0, 1))
    return lane_deferrals.c.lane.between(first, after - 1)


async def spread_lane(tx: Transaction, lane: int, now: Instant, span: Instant) -> None:
    """Spread the due messages of a lane evenly over a time span."""
    await tx.count(SPREAD_LANE, lane=lane, now=now, span=span)


async def end_cap_deferrals(tx: Transaction, first_lane: int, last_lane: int) -> None:
    """Let workers decide again about the messages that a frequency cap defers, because the cap may have changed."""
    await tx.run(END_CAP_DEFERRALS, first_lane=first_lane, last_lane=last_lane)


async def end_provider_deferrals(tx: Transaction, tenant_id: int, now: Instant) -> None:
    """Let workers decide again about a tenant's messages that wait for a provider, because its route has changed."""
    await tx.count(END_PROVIDER_DEFERRALS, tenant_id=tenant_id, now=now)


async def end_snooze_deferrals(tx: Transaction, tenant_id: int, email: str, now: Instant) -> None:
    """Let workers decide again about the messages that a pause of their recipient defers, because it has changed."""
    await tx.run(END_SNOOZE_DEFERRALS, tenant_id=tenant_id, email=email, now=now)


async def defer(database: Database, waiting: Sequence[tuple[Claimed, Deferral]]) -> None:
    """Give back claimed messages that may not be sent yet. The other messages of their lanes are not affected."""
    rows = [
        {
            "message_key": claimed.message_key,
            "claim_token": claimed.claim_token,
            "due_at": held.until,
            "reason": held.reason,
            "retry_until": held.give_up_at,
        }
        for claimed, held in waiting
    ]
    if rows:
        await database.transact(lambda tx: tx.count(DEFER, claims=rows))
