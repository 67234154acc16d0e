"""Campaigns that repeat: at each time of a schedule, a campaign is made from a draft and started.

Making a campaign and moving the schedule is one transaction, so each occurrence happens once. Of times that were missed
because no worker ran, only the latest one counts; if it is more than a day late, its campaign waits for a person. A
draft that was changed since its schedule was set is not sent: the schedule pauses until someone sets it again.
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo
from typing import Any, Final
from zoneinfo import ZoneInfo

import orjson
from sqlalchemy import and_, delete, insert, or_, select, update

from mailwright.content.template_store import TemplateStore
from mailwright.domain.campaign import CampaignAction, CampaignStatus
from mailwright.domain.clock import Clock, Instant
from mailwright.domain.errors import MailwrightError, NotDurable, NotFound
from mailwright.domain.schedule import OVERDUE_AFTER
from mailwright.ops.logs import logger
from mailwright.outbox.sending_hold import is_held
from mailwright.sources.campaigns.campaigns import Campaigns, create_draft
from mailwright.sources.campaigns.digests import changed_parts
from mailwright.sources.campaigns.records import (
    Actor,
    Campaign,
    CampaignChanges,
    campaign_of_row,
    find_campaign,
    lock_campaign,
)
from mailwright.sources.campaigns.review import digest_content, require_reviewed, review_draft
from mailwright.sources.feeds.follow import FeedOwner, find_feed, follow, take_items, unfollow
from mailwright.sources.recurrence_fields import ScheduleFields
from mailwright.storage.database import Database, Transaction
from mailwright.storage.tables import campaign_repeats, campaigns, tenants

# The name of the schedule in the audit log.
SCHEDULE_ACTOR: Final = "schedule"
# A digest contains at most this many items; the next one contains the others.
MAX_DIGEST_ITEMS: Final = 50
NO_ITEMS: Final = "Skipped: the feed has no new items."
TOO_LATE: Final = "No worker ran for more than a day. The campaign was made and not started; start it if it is useful."
_LATEST: Final = 2**62

_R = campaign_repeats.c

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class CampaignRepeat:
    """How a draft repeats, and what happened last."""

    schedule: ScheduleFields
    feed: str | None
    next_at: Instant
    last_at: Instant | None
    last_campaign_id: str | None
    last_result: str | None
    paused_at: Instant | None
    digest: str
    feed_error: str | None = None
    refusal: str | None = None  # Why nothing would be sent at the next time.


class CampaignRepeats:
    """Sets the schedules of drafts, and makes their campaigns in workers."""

    def __init__(
        self, database: Database, clock: Clock, campaigns: Campaigns, templates: TemplateStore, zone: str = "UTC"
    ) -> None:
        self._database = database
        self._clock = clock
        self._campaigns = campaigns
        self._templates = templates
        self._zone = zone
        self._changes = CampaignChanges(clock)

    async def set(
        self,
        actor: Actor,
        campaign_id: str,
        schedule: ScheduleFields,
        *,
        feed: str | None = None,
        reviewed: str | None = None,
    ) -> CampaignRepeat:
        """Repeat a draft from its next time on. Setting it again continues a schedule that was paused.

        `reviewed` are the digests of what a user reviewed: a draft that was changed since then is refused.
        """
        now = self._clock.now()
        draft = await self._campaigns.find(campaign_id, tenant_id=actor.tenant_id)
        if reviewed is not None:
            rules = self._campaigns.rules
            require_reviewed(reviewed, await review_draft(self._database, self._templates, draft, rules))
        digest = await digest_content(self._database, self._templates, draft)
        async with self._database.write() as tx:
            campaign = await lock_campaign(tx, actor, campaign_id, CampaignAction.REPEAT)
            place = await self._place(tx, campaign.tenant_id, schedule)
            values = {
                "schedule": schedule.model_dump_json(by_alias=True, exclude_unset=True),
                "feed": feed,
                "digest": digest,
                "next_at": schedule.recurrence.next_from(now, place),
                "paused_at": None,
                "updated_at": now,
            }
            mine = _R.campaign_key == campaign.key
            if not await tx.execute(update(campaign_repeats).where(mine).values(**values).returning(_R.id)):
                owner = {"tenant_id": campaign.tenant_id, "campaign_key": campaign.key}
                await tx.execute(insert(campaign_repeats).values(**owner, **values))
            if feed is None:
                await unfollow(tx, _feed_owner(campaign.key))
            else:
                await follow(tx, campaign.tenant_id, _feed_owner(campaign.key), feed, now)
            noted = {"schedule": values["schedule"], "feed": feed}
            await self._changes.record(tx, actor, CampaignAction.REPEAT, campaign, **noted)
            return await _load(tx, campaign)

    async def find(self, campaign_id: str, *, tenant_id: int | None) -> CampaignRepeat:
        """Return how a draft repeats, or raise NotFound."""
        async with self._database.read() as tx:
            draft = await find_campaign(tx, campaign_id, tenant_id)
            found = await _load(tx, draft)
        return replace(found, refusal=_refusal(found.digest, await self._digest(draft)))

    async def stop(self, actor: Actor, campaign_id: str) -> None:
        """Stop repeating. Campaigns that were made already are not affected."""
        async with self._database.write() as tx:
            campaign = await lock_campaign(tx, actor, campaign_id, CampaignAction.STOP_REPEAT)
            await _load(tx, campaign)
            await _remove(tx, campaign.key)
            await self._changes.record(tx, actor, CampaignAction.STOP_REPEAT, campaign)

    async def tick(self) -> bool:
        """Make and start the campaigns that are due. Return true if there were any."""
        async with self._database.read() as tx:
            wanted = or_(and_(_R.next_at <= self._clock.now(), _R.paused_at.is_(None)), _R.starting_key.is_not(None))
            # A restored database does not know which campaigns were made after the backup.
            due = () if await is_held(tx) else await tx.execute(select(_R.id).where(wanted).order_by(_R.id))
        for row in due:
            try:
                await self._make(row.id)
                await self._start(row.id)
            except NotDurable:
                raise
            except Exception:  # A draft that cannot repeat must not block the others.
                log.exception("campaign_repeat_failed", repeat=row.id)
        return bool(due)

    async def _make(self, repeat_key: int) -> None:
        """Make the campaign of the latest time that is due, and move the schedule, in one transaction."""
        now, present = self._clock.now(), await self._digest_at(repeat_key)
        async with self._database.write() as tx:
            rows = await tx.execute(select(campaign_repeats).where(_R.id == repeat_key).with_for_update())
            if not rows or rows[0].starting_key is not None or rows[0].next_at > now or rows[0].paused_at is not None:
                return  # Another worker was faster.
            repeat = rows[0]
            base = await _find_base(tx, repeat.campaign_key)
            if base is None:
                await _remove(tx, repeat.campaign_key)
                return
            if reason := _refusal(repeat.digest, present):
                paused = {"paused_at": now, "last_at": repeat.next_at, "last_campaign_key": None, "last_result": reason}
                await tx.execute(update(campaign_repeats).where(_R.id == repeat_key).values(**paused))
                return
            schedule = ScheduleFields.model_validate(orjson.loads(repeat.schedule))
            place = await self._place(tx, repeat.tenant_id, schedule)
            due_at = schedule.recurrence.latest_until(now, place)
            if due_at < repeat.next_at:  # The time zone of the tenant was changed, so this is no time any more.
                moved = schedule.recurrence.next_from(now, place)
                await tx.execute(update(campaign_repeats).where(_R.id == repeat_key).values(next_at=moved))
                return
            changes: dict[str, Any] = {
                "next_at": schedule.recurrence.next_from(now + 1, place),
                "last_at": due_at,
                "last_campaign_key": None,
                "last_result": NO_ITEMS,
            }
            items = await self._items(tx, repeat, now)
            if items or repeat.feed is None:
                variables = {**base.definition.variables, **({"items": items} if repeat.feed is not None else {})}
                changes |= await self._make_campaign(tx, base, variables, due_at, place)
            await tx.execute(update(campaign_repeats).where(_R.id == repeat_key).values(**changes))

    async def _digest_at(self, repeat_key: int) -> str | None:
        """Return the digests of the draft of a schedule; None if it is gone or cannot be read."""
        async with self._database.read() as tx:
            rows = await tx.execute(select(_R.campaign_key).where(_R.id == repeat_key))
            base = await _find_base(tx, rows[0].campaign_key) if rows else None
            draft = None if base is None else await find_campaign(tx, base.campaign_id, base.tenant_id)
        return None if draft is None else await self._digest(draft)

    async def _digest(self, draft: Campaign) -> str | None:
        try:
            return await digest_content(self._database, self._templates, draft)
        except NotDurable:
            raise
        except MailwrightError:
            return None

    async def _items(self, tx: Transaction, repeat: Any, now: Instant) -> list[Any]:
        if repeat.feed is None:
            return []
        taken = await take_items(tx, _feed_owner(repeat.campaign_key), now, limit=MAX_DIGEST_ITEMS)
        return [dict(item.content) for item in reversed(taken)]  # The newest first.

    async def _make_campaign(
        self, tx: Transaction, base: Campaign, variables: dict[str, Any], due_at: Instant, place: tzinfo
    ) -> dict[str, Any]:
        day = datetime.fromtimestamp(due_at / 1000, UTC).astimezone(place)
        name = f"{base.name[:180]}, {day:%Y-%m-%d %H:%M}"
        definition = base.definition.model_copy(update={"name": name, "variables": variables, "scheduled_at": None})
        actor = Actor(SCHEDULE_ACTOR, base.tenant_id)
        made = await create_draft(tx, self._clock, actor, base.tenant_id, definition, copy_of=base)
        if self._clock.now() - due_at > OVERDUE_AFTER:
            return {"last_campaign_key": made.key, "last_result": TOO_LATE}
        return {"last_campaign_key": made.key, "starting_key": made.key, "last_result": None}

    async def _start(self, repeat_key: int) -> None:
        """Start the campaign that was made. After a crash, this happens again."""
        starting = select(campaigns.c.campaign_id, _R.tenant_id, _R.last_at).where(
            _R.id == repeat_key, campaigns.c.id == _R.starting_key, campaigns.c.status == CampaignStatus.DRAFT
        )
        async with self._database.read() as tx:
            rows = await tx.execute(starting)
        result = "Started."
        if rows and self._clock.now() - rows[0].last_at > OVERDUE_AFTER:
            result = TOO_LATE
        elif rows:
            try:
                await self._campaigns.start(Actor(SCHEDULE_ACTOR, rows[0].tenant_id), rows[0].campaign_id)
            except NotDurable:
                raise
            except MailwrightError as error:
                if (await self._campaigns.find(rows[0].campaign_id, tenant_id=None)).status is CampaignStatus.DRAFT:
                    result = f"Not started: {error}"[:500]
        async with self._database.write() as tx:
            mine = and_(_R.id == repeat_key, _R.starting_key.is_not(None))
            changed = update(campaign_repeats).where(mine)
            await tx.execute(changed.values(starting_key=None, last_result=result))

    async def _place(self, tx: Transaction, tenant_id: int, schedule: ScheduleFields) -> tzinfo:
        if schedule.timezone is not None:
            return ZoneInfo(schedule.timezone)
        rows = await tx.execute(select(tenants.c.timezone).where(tenants.c.id == tenant_id))
        return ZoneInfo(rows[0].timezone or self._zone)


def _refusal(digest: str, present: str | None) -> str | None:
    """Return why a draft is not sent at its time, or None."""
    if present is None:
        return "Nothing is sent: the draft uses something that is missing. Review it, and set the schedule again."
    if changed := changed_parts(digest, present):
        parts = ", ".join(changed)
        return (
            f"Nothing is sent: the draft was changed since its schedule was set ({parts}). "
            "Review it, and set the schedule again."
        )
    return None


def _feed_owner(campaign_key: int) -> FeedOwner:
    return FeedOwner("campaign", campaign_key)


async def _find_base(tx: Transaction, campaign_key: int) -> Campaign | None:
    """Return the draft that repeats; None if it was started, archived or deleted."""
    c = campaigns.c
    mine = (c.id == campaign_key, c.status == CampaignStatus.DRAFT, c.deleted_at.is_(None), c.archived_at.is_(None))
    rows = await tx.execute(select(campaigns).where(*mine))
    return campaign_of_row(rows[0]) if rows else None


async def _remove(tx: Transaction, campaign_key: int) -> None:
    await tx.execute(delete(campaign_repeats).where(_R.campaign_key == campaign_key))
    await unfollow(tx, _feed_owner(campaign_key))


async def _load(tx: Transaction, campaign: Campaign) -> CampaignRepeat:
    last = select(campaigns.c.campaign_id).where(campaigns.c.id == _R.last_campaign_key).scalar_subquery()
    query = select(campaign_repeats, last.label("last_campaign_id")).where(_R.campaign_key == campaign.key)
    rows: Any = await tx.execute(query)
    if not rows:
        raise NotFound("The campaign does not repeat.")
    row = rows[0]
    feed = await find_feed(tx, _feed_owner(campaign.key))
    return CampaignRepeat(
        ScheduleFields.model_validate(orjson.loads(row.schedule)),
        row.feed,
        row.next_at,
        row.last_at,
        row.last_campaign_id,
        row.last_result,
        row.paused_at,
        row.digest,
        None if feed is None else feed.error,
    )
