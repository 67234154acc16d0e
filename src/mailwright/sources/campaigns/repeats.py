"""Set drafts to repeat: at each time of a schedule, a worker creates a campaign from the draft and starts it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import insert, select, update

from mailwright.content.blocks.feed import FeedItem, FeedUnreachable
from mailwright.content.template_store import TemplateStore
from mailwright.domain.approval import VOIDABLE
from mailwright.domain.campaign import CampaignAction
from mailwright.domain.clock import Clock, Instant
from mailwright.domain.errors import InvalidInput, MailwrightError, NotDurable, NotFound, NotPossibleNow
from mailwright.sources.campaigns.approval_records import find_newest, load_plan, void
from mailwright.sources.campaigns.campaigns import Campaigns
from mailwright.sources.campaigns.checks import CampaignCheck
from mailwright.sources.campaigns.plan import find_repeat
from mailwright.sources.campaigns.records import Actor, Campaign, CampaignChanges, find_campaign, lock_campaign
from mailwright.sources.campaigns.repeat_checks import SAMPLE_ITEMS, allow_empty_audience, check_repeat, find_refusal
from mailwright.sources.campaigns.repeat_records import (
    CampaignRepeat,
    end_repeat,
    feed_owner,
    find_place,
    load_repeat,
)
from mailwright.sources.campaigns.review import digest_content, digest_draft, digest_loaded, require_reviewed
from mailwright.sources.campaigns.variants import CampaignNotStartable
from mailwright.sources.feeds.follow import follow, item_content, record_error, store_items, unfollow
from mailwright.sources.feeds.reader import Fetch
from mailwright.sources.recurrence_fields import ScheduleFields
from mailwright.storage.database import Database, Transaction
from mailwright.storage.tables import campaign_repeats

_R = campaign_repeats.c


class CampaignRepeats:
    """Sets, shows and ends the schedules of drafts."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        campaigns: Campaigns,
        templates: TemplateStore,
        *,
        fetch: Fetch,
        zone: str = "UTC",
    ) -> None:
        self._database = database
        self._clock = clock
        self._campaigns = campaigns
        self._templates = templates
        self._fetch = fetch
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

        The pre-send check runs: errors are raised, and warnings are returned. `reviewed` has the digests that a user
        has reviewed. A draft that was changed since then is refused. The feed is read, and refused if it is not a feed.
        """
        draft = await self._campaigns.find(campaign_id, tenant_id=actor.tenant_id)
        items, feed_error = await self._read(feed)
        check = await self.check(draft, items)
        if reviewed is not None:
            attachments, rules = draft.attachments, self._campaigns.rules
            present = await digest_draft(draft.tenant_id, draft.definition, check.content, attachments, rules)
            require_reviewed(reviewed, present)
        if check.problems:
            raise CampaignNotStartable(list(check.problems))
        now = self._clock.now()
        async with self._database.write() as tx:
            campaign = await lock_campaign(tx, actor, campaign_id, CampaignAction.REPEAT)
            if (campaign.definition, campaign.attachments) != (draft.definition, draft.attachments):
                raise NotPossibleNow("The campaign was edited meanwhile. Review it, and set the schedule again.")
            place = await find_place(tx, campaign.tenant_id, schedule, self._zone)
            values = {
                "schedule": schedule.model_dump_json(by_alias=True, exclude_unset=True),
                "feed": feed,
                "digest": digest_loaded(draft.definition, check.content, draft.attachments),
                "next_at": schedule.recurrence.next_from(now, place),
                "paused_at": None,
                "failed_at": None,
                "updated_at": now,
            }
            await _store(tx, campaign, values, now)
            await self._follow(tx, campaign, feed, items, feed_error)
            noted = {"schedule": values["schedule"], "feed": feed}
            await self._changes.record(tx, actor, CampaignAction.REPEAT, campaign, **noted)
            await self._void_changed_approval(tx, actor, campaign)
            return replace(await load_repeat(tx, campaign, self._zone), warnings=check.warnings)

    async def check(self, draft: Campaign, items: Sequence[FeedItem] | None) -> CampaignCheck:
        """Run the pre-send check of a draft that repeats, with the items of its feed if it has one."""
        contents = None if items is None else [item_content(item) for item in items[:3]] or SAMPLE_ITEMS
        rules = self._campaigns.rules
        found = await check_repeat(self._database, self._templates, rules, draft, items=contents, now=self._clock.now())
        return allow_empty_audience(found)

    async def find(self, campaign_id: str, *, tenant_id: int | None) -> CampaignRepeat:
        """Return the schedule of a draft, or raise NotFound."""
        async with self._database.read() as tx:
            draft = await find_campaign(tx, campaign_id, tenant_id)
            found = await load_repeat(tx, draft, self._zone)
        return replace(found, refusal=find_refusal(found.digest, await self._digest(draft)))

    async def stop(self, actor: Actor, campaign_id: str) -> None:
        """Stop repeating. Campaigns that were made already are not affected."""
        async with self._database.write() as tx:
            campaign = await lock_campaign(tx, actor, campaign_id, CampaignAction.STOP_REPEAT)
            if not await end_repeat(tx, self._changes, actor, campaign):
                raise NotFound("The campaign does not repeat.")
            await self._void_changed_approval(tx, actor, campaign)

    async def _void_changed_approval(self, tx: Transaction, actor: Actor, campaign: Campaign) -> None:
        """Make the approval of the draft void if its plan has another schedule or feed."""
        approval = await find_newest(tx, campaign.key)
        if approval is None or approval.status not in VOIDABLE:
            return
        plan, repeat = await load_plan(tx, approval.id), await find_repeat(tx, campaign, self._zone)
        present = (None, None) if repeat is None else (repeat.schedule, repeat.feed)
        if (plan.get("repeat"), plan.get("feed")) != present:
            await void(tx, approval.id, "repeat", self._clock.now(), actor=actor.name)

    async def _read(self, feed: str | None) -> tuple[Sequence[FeedItem] | None, str | None]:
        """Return the items of a feed, or why it cannot be reached now. Raise if it is not a feed."""
        if feed is None:
            return None, None
        try:
            return await self._fetch(feed), None
        except FeedUnreachable as error:
            return (), str(error)
        except InvalidInput as error:
            raise InvalidInput(error.text, field="feed") from error

    async def _follow(
        self, tx: Transaction, campaign: Campaign, feed: str | None, items: Sequence[FeedItem] | None, error: str | None
    ) -> None:
        """Follow the feed from now on. Its current items do not count as new."""
        if feed is None:
            await unfollow(tx, feed_owner(campaign.key))
            return
        now = self._clock.now()
        feed_key = await follow(tx, campaign.tenant_id, feed_owner(campaign.key), feed, now)
        if error is not None:
            await record_error(tx, feed_key, error)
        elif items is not None:
            await store_items(tx, feed_key, items, now)

    async def _digest(self, draft: Campaign) -> str | None:
        try:
            return await digest_content(self._database, self._templates, draft)
        except NotDurable:
            raise
        except MailwrightError:
            return None


async def _store(tx: Transaction, campaign: Campaign, values: Mapping[str, Any], now: Instant) -> None:
    mine = _R.campaign_key == campaign.key
    known = await tx.execute(select(_R.last_at).where(mine))
    if not known:
        owner = {"tenant_id": campaign.tenant_id, "campaign_key": campaign.key}
        await tx.execute(insert(campaign_repeats).values(**owner, **values))
        return
    if known[0].last_at is not None and known[0].last_at > now:  # The clock was wrong.
        values = {**values, "last_at": None, "last_campaign_key": None, "last_result": None}
    await tx.execute(update(campaign_repeats).where(mine).values(**values))
