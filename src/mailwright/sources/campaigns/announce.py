"""Publish the progress of campaigns as events, once for each change, so that webhooks can notify others.

The queue entry stores the last published state, which changes in the transaction that appends the event.
"""

from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import or_, update

from mailwright.domain.campaign import NO_WORKER, SCHEDULED
from mailwright.domain.clock import Instant, isoformat
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.message import Event
from mailwright.domain.permits import DeferReason
from mailwright.domain.states import EventType
from mailwright.outbox.settle import NO_MESSAGE, append_events, event_row
from mailwright.sources.campaigns.deferrals import RETRY_SCHEDULED
from mailwright.sources.campaigns.progress import QueuePosition, end_of_deferral, list_positions, send_rate
from mailwright.storage.database import Database, Transaction
from mailwright.storage.tables import queue_entries

# Waits that are part of normal sending. Without a worker, nobody could notify a webhook.
_NOT_HELD: Final = frozenset(
    {
        SCHEDULED,
        NO_WORKER,
        RETRY_SCHEDULED,
        "domain_limit",
        DeferReason.RESEND_TURN.value,
        DeferReason.TENANT_CONCURRENCY.value,
    }
)
_HELD: Final = "held:"
_SENDING: Final = "sending"
_FINAL_STATES: Final = {
    EventType.CAMPAIGN_STARTED: "started",
    EventType.CAMPAIGN_RESUMED: _SENDING,
    EventType.CAMPAIGN_FINISHED: "finished",
    EventType.CAMPAIGN_CANCELLED: "cancelled",
}


@dataclass(frozen=True, slots=True)
class AnnouncedCampaign:
    key: int
    campaign_id: str
    name: str
    tenant_id: int


async def announce(tx: Transaction, campaign: AnnouncedCampaign, type_: EventType, now: Instant) -> None:
    """Publish that a campaign was started, resumed, finished or cancelled, unless that is the published state."""
    await _publish(tx, campaign, _FINAL_STATES[type_], Event(type_, now, {}))


async def announce_hold(
    tx: Transaction,
    campaign: AnnouncedCampaign,
    reason: str,
    now: Instant,
    *,
    until: Instant | None = None,
    details: Mapping[str, Any] | None = None,
) -> None:
    """Publish that a campaign is held. `until` is None if only a user can end the hold."""
    metadata = {"reason": reason, "until": isoformat(until), **(details or {})}
    await _publish(tx, campaign, f"{_HELD}{reason}", Event(EventType.CAMPAIGN_HELD, now, metadata))


async def announce_warning(
    tx: Transaction, campaign: AnnouncedCampaign, now: Instant, details: Mapping[str, Any]
) -> None:
    """Publish that a campaign has passed a guard rail and is still sent."""
    await _append(tx, campaign, Event(EventType.CAMPAIGN_WARNED, now, details))


async def announce_queue(database: Database, now: Instant) -> None:
    """Publish which queued campaigns are held by limits, providers or tests, and which are being sent again."""
    async with database.read() as tx:
        changed = [position for position in await list_positions(tx, tenant_id=None) if _has_changed(position)]
        moving = {position.lane for position in changed if await send_rate(tx, position, now) > 0}
    for position in changed:
        campaign = AnnouncedCampaign(position.campaign_key, position.campaign_id, position.name, position.tenant_id)
        reason = _hold(position)
        if reason is None and position.lane not in moving:
            continue  # The deferral has ended, but nothing was sent yet: the provider may still be unavailable.
        async with database.write() as tx:
            if reason is not None:
                await announce_hold(tx, campaign, reason, now, until=end_of_deferral(position))
            else:
                await announce(tx, campaign, EventType.CAMPAIGN_RESUMED, now)


def _has_changed(position: QueuePosition) -> bool:
    """Return whether the campaign is in another state than the one that was published."""
    reason, announced = _hold(position), position.announced or ""
    return announced.startswith(_HELD) if reason is None else announced != f"{_HELD}{reason}"


def _hold(position: QueuePosition) -> str | None:
    return None if position.defer_reason in _NOT_HELD else position.defer_reason


async def _publish(tx: Transaction, campaign: AnnouncedCampaign, state: str, event: Event) -> None:
    e = queue_entries.c
    is_news = or_(e.announced.is_(None), e.announced != state)
    changed = update(queue_entries).where(e.campaign_key == campaign.key, is_news).values(announced=state)
    if await tx.execute(changed.returning(e.id)):
        await _append(tx, campaign, event)


async def _append(tx: Transaction, campaign: AnnouncedCampaign, event: Event) -> None:
    about: dict[str, Any] = {"campaign": {"campaignId": campaign.campaign_id, "name": campaign.name}}
    published = Event(event.type, event.at, {**about, **event.metadata})
    await append_events(tx, [event_row(NO_MESSAGE, campaign.tenant_id, published)])
