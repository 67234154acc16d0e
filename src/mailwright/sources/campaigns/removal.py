"""Withdraw a scheduled campaign, and archive, delete and restore campaigns.

A campaign that has started keeps its messages and reports permanently, so it can be archived but not deleted.
"""

from sqlalchemy import delete
from sqlalchemy.exc import IntegrityError

from mailwright.domain.campaign import CampaignAction, CampaignStatus
from mailwright.domain.clock import Clock
from mailwright.domain.errors import NotPossibleNow
from mailwright.domain.states import EventType
from mailwright.outbox import defer
from mailwright.outbox.sequence_uses import CAMPAIGNS, find_sequence_uses
from mailwright.sources.campaigns.announce import announce
from mailwright.sources.campaigns.records import (
    Actor,
    Campaign,
    CampaignChanges,
    announced,
    entry_of,
    find_campaign,
    lock_campaign,
)
from mailwright.sources.campaigns.repeat_records import end_repeat
from mailwright.sources.campaigns.resend import AlreadyResent, find_resent
from mailwright.storage.database import Database
from mailwright.storage.tables import queue_entries


class CampaignRemoval:
    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._changes = CampaignChanges(clock)

    async def withdraw(self, actor: Actor, campaign_id: str) -> Campaign:
        """Turn a campaign that has not begun to send back into a draft. Its send time is kept."""
        now = self._clock.now()
        async with self._database.write() as tx:
            # Enqueueing locks the campaign too, so nothing can be enqueued while it is withdrawn.
            campaign = await lock_campaign(tx, actor, campaign_id, CampaignAction.WITHDRAW)
            entry = await entry_of(tx, campaign)
            if entry.recipients or entry.processed:
                raise NotPossibleNow("The campaign has already begun to send. Pause or cancel it instead.")
            await announce(tx, announced(campaign), EventType.CAMPAIGN_CANCELLED, now)
            await defer.end_lane_deferral(tx, entry.lane)
            await tx.execute(delete(queue_entries).where(queue_entries.c.campaign_key == campaign.key))
            return await self._changes.move_to(
                tx,
                actor,
                CampaignAction.WITHDRAW,
                campaign,
                CampaignStatus.DRAFT,
                started_at=None,
                messages_after_key=0,
            )

    async def archive(self, actor: Actor, campaign_id: str) -> Campaign:
        """Hide a campaign that is not being sent from the list of campaigns."""
        async with self._database.write() as tx:
            campaign = await lock_campaign(tx, actor, campaign_id, CampaignAction.ARCHIVE)
            if campaign.archived_at is None:
                await self._changes.change(tx, campaign, archived_at=self._clock.now())
                await self._changes.record(tx, actor, CampaignAction.ARCHIVE, campaign)
                await end_repeat(tx, self._changes, actor, campaign, because="the draft was archived")
            return await find_campaign(tx, campaign_id, actor.tenant_id)

    async def delete(self, actor: Actor, campaign_id: str) -> Campaign:
        """Delete a campaign that never started. `restore` brings it back."""
        async with self._database.write() as tx:
            campaign = await lock_campaign(tx, actor, campaign_id, CampaignAction.DELETE)
            if campaign.started_at is not None:
                raise NotPossibleNow(
                    "The campaign was started, so its messages and its report are kept. Archive it instead."
                )
            uses = await find_sequence_uses(tx, campaign.tenant_id, CAMPAIGNS, campaign_id)
            if uses:
                raise NotPossibleNow(
                    "The campaign {name} cannot be deleted because {reason}. {remedy}",
                    name=campaign.name,
                    reason=uses[0].sentence,
                    remedy=uses[0].remedy,
                )
            # Without `resend_of`, the campaign that this one sends again can be sent again by another draft.
            await self._changes.change(tx, campaign, deleted_at=self._clock.now(), resend_of=None)
            await self._changes.record(tx, actor, CampaignAction.DELETE, campaign)
            await end_repeat(tx, self._changes, actor, campaign, because="the draft was deleted")
            return campaign

    async def restore(self, actor: Actor, campaign_id: str) -> Campaign:
        """Bring back an archived or deleted campaign."""
        now = self._clock.now()
        async with self._database.write() as tx:
            campaign = await find_campaign(tx, campaign_id, actor.tenant_id, to_change=True, with_deleted=True)
            if campaign.archived_at is None and campaign.deleted_at is None:
                return campaign
            changes: dict[str, int | None] = {"archived_at": None, "deleted_at": None}
            if campaign.deleted_at is not None:
                changes["resend_of"] = await find_resent(tx, campaign.tenant_id, campaign.definition, now)
            try:
                await self._changes.change(tx, campaign, **changes)
            except IntegrityError as error:
                raise AlreadyResent from error
            await self._changes.record(tx, actor, CampaignAction.RESTORE, campaign)
            return await find_campaign(tx, campaign_id, actor.tenant_id)
