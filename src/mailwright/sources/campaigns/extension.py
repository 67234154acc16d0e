"""Extend a campaign to contacts who joined its audience after it started, and to another segment."""

from dataclasses import replace

from mailwright.domain.campaign import CampaignAction
from mailwright.domain.clock import Clock, Instant
from mailwright.domain.errors import NotPossibleNow
from mailwright.sources.campaigns.checks import filter_with_segment
from mailwright.sources.campaigns.enqueue import count_new_recipients
from mailwright.sources.campaigns.entries import QueueEntry
from mailwright.sources.campaigns.records import Actor, Campaign, check_status, entry_of, find_campaign
from mailwright.sources.campaigns.review import review_extension
from mailwright.storage.database import Database, Transaction


async def preview_extension(
    database: Database, clock: Clock, actor: Actor, campaign_id: str, segment: str | None
) -> tuple[int, str]:
    """Return how many recipients an extension would add, and the digests of the content for them."""
    async with database.read() as tx:
        campaign = await find_campaign(tx, campaign_id, actor.tenant_id)
        check_status(campaign, CampaignAction.EXTEND)
        entry, added = await extended_audience(tx, campaign, segment, clock.now())
    return added, review_extension(campaign, entry.content.filter)


async def extended_audience(
    tx: Transaction, campaign: Campaign, segment: str | None, now: Instant
) -> tuple[QueueEntry, int]:
    """Return the entry with its extended audience and the number of new recipients, or raise an error with the reason
    why there are none.
    """
    entry = await entry_of(tx, campaign)
    if entry.enqueue_ended_at is None or entry.content.ab_test is not None or entry.wave is not None:
        raise NotPossibleNow("The campaign is still enqueueing its audience, which includes new subscribers.")
    if segment is not None and campaign.definition.resend_of is not None:
        raise NotPossibleNow("The campaign goes to people who did not open another one, so no segment can be added.")
    if segment is not None:
        wider = await filter_with_segment(tx, campaign.tenant_id, campaign.definition, entry.content.filter, segment)
        entry = replace(entry, content=replace(entry.content, filter=wider))
    if not (added := await count_new_recipients(tx, entry, now)):
        raise NotPossibleNow("Everyone in the audience already has a message of the campaign.")
    return entry, added
