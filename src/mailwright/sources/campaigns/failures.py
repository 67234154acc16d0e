"""The actions of an operator for the messages of a campaign that failed or are in doubt."""

from mailwright.domain.campaign import CampaignAction, CampaignStatus
from mailwright.domain.clock import Clock
from mailwright.domain.errors import NotPossibleNow
from mailwright.domain.states import EventType, Resolution
from mailwright.outbox import lane_operations
from mailwright.outbox.lane_operations import RetriedMessages
from mailwright.outbox.queue_states import REOPENED
from mailwright.sources.campaigns.announce import announce
from mailwright.sources.campaigns.entries import update_entry
from mailwright.sources.campaigns.guard_rails import restart_count
from mailwright.sources.campaigns.records import Actor, Campaign, CampaignChanges, announced, entry_of, lock_campaign
from mailwright.storage.database import Database

# What retried and resolved the messages, in their events.
_BY = "campaign"


class CampaignFailures:
    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._changes = CampaignChanges(clock)

    async def retry_failed(self, actor: Actor, campaign_id: str) -> tuple[Campaign, RetriedMessages]:
        """Retry the failed messages with all their attempts, except those to addresses that are now suppressed."""
        async with self._database.write() as tx:
            campaign = await lock_campaign(tx, actor, campaign_id, CampaignAction.RETRY_FAILED)
            entry, now = await entry_of(tx, campaign), self._clock.now()
            found = await lane_operations.requeue_failed(tx, entry.lane, now, by=_BY)
            if found.retried:
                await update_entry(tx, campaign.key, **REOPENED)
                await restart_count(tx, entry, now)
            not_retried = found.bounced + found.suppressed
            await self._changes.record(
                tx, actor, CampaignAction.RETRY_FAILED, campaign, messages=found.retried, notRetried=not_retried
            )
        return campaign, found

    async def resolve_in_doubt(self, actor: Actor, campaign_id: str, resolution: Resolution) -> tuple[Campaign, int]:
        """Resolve all messages in doubt as an operator decides. Return how many there were."""
        async with self._database.write() as tx:
            campaign = await lock_campaign(tx, actor, campaign_id, CampaignAction.RESOLVE_IN_DOUBT)
            lane = (await entry_of(tx, campaign)).lane
            count = await lane_operations.resolve_in_doubt(tx, lane, resolution, self._clock.now(), by=_BY)
            if count and campaign.status is CampaignStatus.SENDING:
                await update_entry(tx, campaign.key, **REOPENED)  # It is complete again after the resends.
            await self._changes.record(
                tx, actor, CampaignAction.RESOLVE_IN_DOUBT, campaign, messages=count, **{"as": resolution}
            )
        return campaign, count

    async def accept_failures(self, actor: Actor, campaign_id: str) -> Campaign:
        async with self._database.write() as tx:
            campaign = await lock_campaign(tx, actor, campaign_id, CampaignAction.ACCEPT_FAILURES)
            if (await entry_of(tx, campaign)).completed_at is None:
                raise NotPossibleNow("The campaign is still being sent. Accept its failures when it is complete.")
            now = self._clock.now()
            await announce(tx, announced(campaign), EventType.CAMPAIGN_FINISHED, now)
            return await self._changes.move_to(
                tx, actor, CampaignAction.ACCEPT_FAILURES, campaign, CampaignStatus.SENT, finished_at=now
            )
