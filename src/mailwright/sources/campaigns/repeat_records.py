"""Rows of recurring campaigns: the schedules of drafts, their last results, and why an email was not sent."""

from collections.abc import Mapping
from datetime import tzinfo
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

import orjson
from sqlalchemy import and_, delete, or_, select, update

from mailwright.content.presend_checks import PresendIssue
from mailwright.domain.campaign import CampaignAction, CampaignStatus
from mailwright.domain.clock import Clock, Instant, isoformat
from mailwright.domain.errors import NotFound
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.sources.campaigns.records import (
    Actor,
    Campaign,
    CampaignChanges,
    RepeatSummary,
    find_campaign,
    summary_of_row,
)
from mailwright.sources.feeds.follow import FeedOwner, FollowedFeed, find_feed, unfollow
from mailwright.sources.recurrence_fields import ScheduleFields
from mailwright.storage.database import Transaction
from mailwright.storage.tables import campaign_repeats, campaigns, tenants

# The name of the schedule in the audit log.
SCHEDULE_ACTOR: Final = "schedule"
# The number of next times that are shown for a recurring campaign.
SHOWN_TIMES: Final = 5

_R = campaign_repeats.c
_C = campaigns.c


@dataclass(frozen=True, slots=True)
class CampaignRepeat:
    """The schedule of a draft, and its last result."""

    schedule: ScheduleFields
    feed: str | None
    next_at: Instant
    next_times: tuple[Instant, ...]  # Empty while it is paused.
    last_at: Instant | None
    last_campaign_id: str | None
    last_result: str | None
    paused_at: Instant | None
    failed_at: Instant | None
    digest: str
    followed: FollowedFeed | None = None
    refusal: str | None = None  # Why nothing would be sent at the next time.
    warnings: tuple[PresendIssue, ...] = ()  # Of the pre-send check, when the schedule is set.


class FailedRepeat(NamedTuple):
    """A recurring campaign whose emails are not sent although they are due."""

    campaign_id: str
    name: str
    result: str
    failed_at: Instant
    is_paused: bool


async def load_repeat(tx: Transaction, campaign: Campaign, zone: str) -> CampaignRepeat:
    """Return the schedule of a draft, or raise NotFound. `zone` is the time zone of the installation."""
    last = select(_C.campaign_id).where(_C.id == _R.last_campaign_key).scalar_subquery()
    query = select(campaign_repeats, last.label("last_campaign_id")).where(_R.campaign_key == campaign.key)
    rows: Any = await tx.execute(query)
    if not rows:
        raise NotFound("The campaign does not repeat.")
    row = rows[0]
    schedule = ScheduleFields.model_validate(orjson.loads(row.schedule))
    place = await find_place(tx, campaign.tenant_id, schedule, zone)
    return CampaignRepeat(
        schedule,
        row.feed,
        row.next_at,
        schedule.recurrence.times_from(row.next_at, place, SHOWN_TIMES) if row.paused_at is None else (),
        row.last_at,
        row.last_campaign_id,
        row.last_result,
        row.paused_at,
        row.failed_at,
        row.digest,
        await find_feed(tx, feed_owner(campaign.key)),
    )


async def find_place(tx: Transaction, tenant_id: int, schedule: ScheduleFields, zone: str) -> tzinfo:
    """Return the time zone of a schedule: its own, the tenant's, or that of the installation."""
    if schedule.timezone is not None:
        return ZoneInfo(schedule.timezone)
    rows = await tx.execute(select(tenants.c.timezone).where(tenants.c.id == tenant_id))
    return ZoneInfo(rows[0].timezone or zone)


async def find_summary(tx: Transaction, campaign_key: int) -> RepeatSummary | None:
    """Return the schedule of a draft, or the schedule that created the draft and could not start it."""
    made = and_(_R.last_campaign_key == campaign_key, _R.failed_at.is_not(None))
    rows = await tx.execute(select(campaign_repeats).where(or_(_R.campaign_key == campaign_key, made)))
    if not rows:
        return None
    found = summary_of_row(rows[0])
    return found if rows[0].campaign_key == campaign_key else found._replace(next_at=None)


async def list_failed(tx: Transaction) -> list[FailedRepeat]:
    """Return the recurring campaigns of all tenants that wait for a person.

    They no longer wait after somebody has started or deleted the campaign that was created.
    """
    made = campaigns.alias("made")
    waits = or_(
        _R.paused_at.is_not(None),
        _R.last_campaign_key.is_(None),
        and_(made.c.status == CampaignStatus.DRAFT, made.c.deleted_at.is_(None), made.c.archived_at.is_(None)),
    )
    joined = campaign_repeats.join(campaigns, _C.id == _R.campaign_key).outerjoin(
        made, made.c.id == _R.last_campaign_key
    )
    columns = (_C.campaign_id, _C.name, _R.last_result, _R.failed_at, _R.paused_at)
    query = select(*columns).select_from(joined).where(_R.failed_at.is_not(None), waits).order_by(_R.failed_at, _R.id)
    rows = await tx.execute(query)
    return [
        FailedRepeat(row.campaign_id, row.name, row.last_result or "", row.failed_at, row.paused_at is not None)
        for row in rows
    ]


async def lock_repeat(tx: Transaction, repeat_key: int) -> tuple[Any, Campaign] | None:
    """Lock a schedule with its draft.

    The campaign is locked first, as everywhere else, so that transactions cannot wait for each other.
    """
    owner = select(_C.campaign_id).where(_R.id == repeat_key, _C.id == _R.campaign_key)
    owners = await tx.execute(owner)
    if not owners:
        return None
    draft = await find_campaign(tx, owners[0].campaign_id, None, to_change=True, with_deleted=True)
    rows = await tx.execute(select(campaign_repeats).where(_R.id == repeat_key).with_for_update())
    return (rows[0], draft) if rows else None


async def record_failure(
    tx: Transaction,
    clock: Clock,
    repeat: Any,
    draft: Campaign,
    reason: str,
    *,
    also: Mapping[str, Any] = MappingProxyType({}),
    pauses: bool = False,
) -> bool:
    """Store why an email is not sent, for the dashboard, the health checks and the audit log.

    `also` has other columns to store. Return whether the failure is new: a failure that repeats for one scheduled time
    is recorded once.
    """
    now = clock.now()
    stored = {"last_result": reason[:500], "failed_at": repeat.failed_at or now, **also}
    if pauses:
        stored["paused_at"] = now
    if all(getattr(repeat, name) == value for name, value in stored.items()):
        return False
    await tx.execute(update(campaign_repeats).where(_R.id == repeat.id).values(**stored))
    action = CampaignAction.PAUSE_REPEAT if pauses else CampaignAction.SKIP_REPEAT
    noted = {"because": stored["last_result"], "time": isoformat(also.get("last_at", repeat.last_at))}
    await CampaignChanges(clock).record(tx, Actor(SCHEDULE_ACTOR, draft.tenant_id), action, draft, **noted)
    return True


async def end_repeat(tx: Transaction, changes: CampaignChanges, actor: Actor, campaign: Campaign, **noted: Any) -> bool:
    """Stop repeating a draft in the transaction that changes it. Return false if it did not repeat."""
    removed = await tx.execute(delete(campaign_repeats).where(_R.campaign_key == campaign.key).returning(_R.id))
    if not removed:
        return False
    await unfollow(tx, feed_owner(campaign.key))
    await changes.record(tx, actor, CampaignAction.STOP_REPEAT, campaign, **noted)
    return True


def feed_owner(campaign_key: int) -> FeedOwner:
    return FeedOwner("campaign", campaign_key)
