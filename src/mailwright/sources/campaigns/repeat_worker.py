"""Create and start the campaigns of recurring drafts.

One transaction creates a campaign and moves the schedule, so each occurrence happens once. If several times were missed
because no worker ran, only the latest one counts. If it is more than a day late, its campaign waits for a person. A
draft that was changed since its schedule was set is not sent: the schedule pauses until someone sets it again. The
content is compared with the reviewed content twice: in the transaction that creates the campaign, and at its start.
"""

from datetime import UTC, datetime, tzinfo
from typing import Any, Final, NamedTuple

import orjson
from sqlalchemy import and_, bindparam, or_, select, update

from mailwright.content.template_store import TemplateStore
from mailwright.domain.campaign import CampaignStatus
from mailwright.domain.clock import DAY, Clock, Instant
from mailwright.domain.errors import MailwrightError, NotDurable
from mailwright.domain.schedule import OVERDUE_AFTER
from mailwright.ops.logs import logger
from mailwright.outbox.sending_hold import is_held
from mailwright.sources.campaigns.campaigns import Campaigns, create_draft
from mailwright.sources.campaigns.checks import CampaignCheck
from mailwright.sources.campaigns.records import Actor, Campaign, find_campaign
from mailwright.sources.campaigns.repeat_checks import SAMPLE_ITEMS, check_repeat, find_refusal
from mailwright.sources.campaigns.repeat_records import (
    SCHEDULE_ACTOR,
    feed_owner,
    find_place,
    lock_repeat,
    record_failure,
)
from mailwright.sources.campaigns.review import digest_loaded
from mailwright.sources.campaigns.variants import CampaignNotStartable
from mailwright.sources.feeds.follow import count_unused, take_items
from mailwright.sources.recurrence_fields import ScheduleFields
from mailwright.storage.database import Database, Transaction
from mailwright.storage.tables import campaign_repeats, campaigns

# A digest contains at most this many items; the next one contains the others.
MAX_DIGEST_ITEMS: Final = 50
# If a clock was corrected by less than this, the campaign still starts without a person's decision.
CLOCK_TOLERANCE: Final[Instant] = DAY
NO_ITEMS: Final = "Skipped: the feed has no new items."
STARTED: Final = "Started."
TOO_LATE: Final = "No worker ran for more than a day. The campaign was made and not started; start it if it is useful."
CLOCK_WENT_BACK: Final = (
    "Paused: the clock of the server was moved back by more than a day, so the next time is not known. "
    "Check the clock, and set the schedule again."
)

_R = campaign_repeats.c
# Schedules that are due, and those that were set or served at a time in the future, because a clock was wrong.
_IS_DUE: Final = or_(
    _R.next_at <= bindparam("now"), _R.last_at > bindparam("ahead"), _R.updated_at > bindparam("ahead")
)
_DUE: Final = (
    select(_R.id).where(or_(and_(_IS_DUE, _R.paused_at.is_(None)), _R.starting_key.is_not(None))).order_by(_R.id)
)

log = logger(__name__)


class _Examined(NamedTuple):
    """A draft with the data that the pre-send check has read."""

    draft: Campaign
    check: CampaignCheck

    @property
    def digest(self) -> str:
        return digest_loaded(self.draft.definition, self.check.content, self.draft.attachments)


class RepeatWorker:
    """Makes and starts campaigns that are due. Any number of workers may run."""

    def __init__(
        self, database: Database, clock: Clock, campaigns: Campaigns, templates: TemplateStore, *, zone: str = "UTC"
    ) -> None:
        self._database = database
        self._clock = clock
        self._campaigns = campaigns
        self._templates = templates
        self._zone = zone

    async def tick(self) -> bool:
        """Make and start the campaigns that are due. Return true if there were any."""
        has_worked = False
        for key in await self._list_due():
            try:
                await self._make(key)
                await self.start(key)
                has_worked = True
            except NotDurable:
                raise
            except Exception as error:  # A draft that cannot repeat must not block the others.
                await self._report(key, error)
        return has_worked

    async def _list_due(self) -> list[int]:
        now = self._clock.now()
        async with self._database.read() as tx:
            if await is_held(
                tx, self._database
            ):  # A restored database does not know which campaigns were made after the backup.
                return []
            return [row.id for row in await tx.execute(_DUE, {"now": now, "ahead": now + CLOCK_TOLERANCE})]

    async def _make(self, repeat_key: int) -> None:
        """Create the campaign for the latest due time and move the schedule, in one transaction."""
        now, examined = self._clock.now(), await self._examine(repeat_key)
        async with self._database.write() as tx:
            found = await lock_repeat(tx, repeat_key)
            if found is None or found[0].starting_key is not None or found[0].paused_at is not None:
                return  # Another worker was faster.
            repeat, base = found
            if max(repeat.last_at or 0, repeat.updated_at) > now + CLOCK_TOLERANCE:
                await record_failure(tx, self._clock, repeat, base, CLOCK_WENT_BACK, pauses=True)
                return
            if repeat.next_at > now or examined is None or not _is_same(examined.draft, base):
                return  # Another worker was faster, or the draft was edited meanwhile: the next tick reads it again.
            if reason := find_refusal(repeat.digest, examined.digest):
                missed = {"last_at": repeat.next_at, "last_campaign_key": None}
                await record_failure(tx, self._clock, repeat, base, reason, also=missed, pauses=True)
                return
            await self._make_due(tx, repeat, base, examined, now)

    async def _make_due(self, tx: Transaction, repeat: Any, base: Campaign, examined: _Examined, now: Instant) -> None:
        schedule = ScheduleFields.model_validate(orjson.loads(repeat.schedule))
        place = await find_place(tx, repeat.tenant_id, schedule, self._zone)
        due_at = schedule.recurrence.latest_until(now, place)
        mine = update(campaign_repeats).where(_R.id == repeat.id)
        if due_at < repeat.next_at:  # The tenant's time zone was changed, so this time is not scheduled any more.
            await tx.execute(mine.values(next_at=schedule.recurrence.next_from(now, place)))
            return
        moved = {
            "next_at": schedule.recurrence.next_from(now + 1, place),
            "last_at": due_at,
            "last_campaign_key": None,
        }
        if repeat.feed is not None and not await count_unused(tx, feed_owner(repeat.campaign_key)):
            await tx.execute(mine.values(**moved, last_result=NO_ITEMS, failed_at=None))
            return
        if examined.check.problems:
            reason = f"Not sent: {CampaignNotStartable(list(examined.check.problems))}"
            await record_failure(tx, self._clock, repeat, base, reason, also=moved)
            return
        made = await self._make_campaign(tx, repeat, base, due_at, place)
        moved["last_campaign_key"] = made.key
        if now - due_at > OVERDUE_AFTER:
            await record_failure(tx, self._clock, repeat, base, TOO_LATE, also=moved)
            return
        digest = digest_loaded(made.definition, examined.check.content, made.attachments)
        await tx.execute(mine.values(**moved, starting_key=made.key, starting_digest=digest, last_result=None))

    async def _examine(self, repeat_key: int) -> _Examined | None:
        """Check the draft of a schedule before its transaction. Return None if the draft no longer exists."""
        async with self._database.read() as tx:
            found = select(_R.feed, campaigns.c.campaign_id, _R.tenant_id, _R.starting_key).where(
                _R.id == repeat_key, campaigns.c.id == _R.campaign_key, campaigns.c.deleted_at.is_(None)
            )
            rows = await tx.execute(found)
            if not rows or rows[0].starting_key is not None:
                return None
            draft = await find_campaign(tx, rows[0].campaign_id, rows[0].tenant_id)
        items = None if rows[0].feed is None else SAMPLE_ITEMS
        rules, now = self._campaigns.rules, self._clock.now()
        return _Examined(draft, await check_repeat(self._database, self._templates, rules, draft, items=items, now=now))

    async def _make_campaign(
        self, tx: Transaction, repeat: Any, base: Campaign, due_at: Instant, place: tzinfo
    ) -> Campaign:
        variables = dict(base.definition.variables)
        if repeat.feed is not None:
            owner = feed_owner(repeat.campaign_key)
            taken = await take_items(tx, owner, self._clock.now(), limit=MAX_DIGEST_ITEMS)
            variables["items"] = [dict(item.content) for item in reversed(taken)]  # The newest first.
        day = datetime.fromtimestamp(due_at / 1000, UTC).astimezone(place)
        name = f"{base.name[:180]}, {day:%Y-%m-%d %H:%M}"
        definition = base.definition.model_copy(update={"name": name, "variables": variables, "scheduled_at": None})
        actor = Actor(SCHEDULE_ACTOR, base.tenant_id)
        return await create_draft(tx, self._clock, actor, base.tenant_id, definition, copy_of=base, is_repeat=True)

    async def start(self, repeat_key: int) -> None:
        """Start the campaign that was created. After a crash, the start is repeated."""
        columns = (campaigns.c.campaign_id, campaigns.c.status, _R.tenant_id, _R.last_at, _R.starting_digest)
        starting = select(*columns).where(_R.id == repeat_key, campaigns.c.id == _R.starting_key)
        async with self._database.read() as tx:
            rows = await tx.execute(starting)
        if not rows:
            return
        failure = None
        if rows[0].status == CampaignStatus.DRAFT:
            failure = TOO_LATE
            if self._clock.now() - rows[0].last_at <= OVERDUE_AFTER:
                failure = await self._try_start(rows[0])
        async with self._database.write() as tx:
            found = await lock_repeat(tx, repeat_key)
            if found is None or found[0].starting_key is None:
                return
            repeat, base = found
            started: dict[str, Any] = {"starting_key": None, "starting_digest": None}
            if failure is not None:
                await record_failure(tx, self._clock, repeat, base, failure, also=started)
            else:
                started |= {"last_result": STARTED, "failed_at": None}
                await tx.execute(update(campaign_repeats).where(_R.id == repeat_key).values(**started))

    async def _try_start(self, row: Any) -> str | None:
        """Start a campaign exactly as it was created. Return why it did not start, or None."""
        actor = Actor(SCHEDULE_ACTOR, row.tenant_id)
        try:
            await self._campaigns.start(actor, row.campaign_id, content_digest=row.starting_digest)
        except NotDurable:
            raise
        except MailwrightError as error:
            present = await self._campaigns.find(row.campaign_id, tenant_id=None)
            return f"Not started: {error}" if present.status is CampaignStatus.DRAFT else None
        return None

    async def _report(self, repeat_key: int, error: Exception) -> None:
        """Record an unexpected error once. The next tick tries again."""
        why = str(error) if isinstance(error, MailwrightError) else f"unexpected error {type(error).__name__}"
        async with self._database.write() as tx:
            found = await lock_repeat(tx, repeat_key)
            if found is None:
                return
            repeat, base = found
            reason = f"Not sent yet: {why}. Mailwright tries again."
            is_new = await record_failure(tx, self._clock, repeat, base, reason)
        if is_new:
            log.exception("campaign_repeat_failed", repeat=repeat_key)


def _is_same(examined: Campaign, present: Campaign) -> bool:
    return (examined.definition, examined.attachments) == (present.definition, present.attachments)
