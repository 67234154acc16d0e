"""The actions of a user on a campaign that its guard rails watch."""

from mailwright.domain.campaign import CampaignAction
from mailwright.domain.clock import Clock
from mailwright.domain.errors import NotPossibleNow
from mailwright.domain.guard_rails import GuardRails
from mailwright.sources.campaigns.guard_rails import GuardReport, accept_incidents, load_guard
from mailwright.sources.campaigns.records import (
    Actor,
    Campaign,
    CampaignChanges,
    entry_of,
    find_campaign,
    lock_campaign,
)
from mailwright.sources.campaigns.review import require_reviewed, review_started
from mailwright.sources.campaigns.waves import open_wave
from mailwright.storage.database import Database


class CampaignGuardActions:
    def __init__(self, database: Database, clock: Clock, rails: GuardRails) -> None:
        self._database = database
        self._clock = clock
        self._rails = rails
        self._changes = CampaignChanges(clock)

    async def report(self, campaign_id: str, *, tenant_id: int | None) -> GuardReport:
        """Return the guard rails of a started campaign, their counts and their actions so far."""
        async with self._database.read() as tx:
            campaign = await find_campaign(tx, campaign_id, tenant_id)
            entry = await entry_of(tx, campaign)
            return await load_guard(tx, entry.campaign_key, self._rails)

    async def accept_incidents(self, actor: Actor, campaign_id: str) -> Campaign:
        """End a warning or a slow-down, and judge only messages that are sent from now on."""
        async with self._database.write() as tx:
            campaign = await lock_campaign(tx, actor, campaign_id, CampaignAction.ACCEPT_INCIDENTS)
            entry = await entry_of(tx, campaign)
            before = await accept_incidents(tx, entry, self._rails, self._clock.now())
            if before.finding is None:
                raise NotPossibleNow("The campaign has not passed any guard rail.")
            accepted = before.finding.detail
            await self._changes.record(tx, actor, CampaignAction.ACCEPT_INCIDENTS, campaign, accepted=accepted)
            return campaign

    async def open_next_wave(
        self, actor: Actor, campaign_id: str, *, wave: int | None = None, reviewed: str | None = None
    ) -> Campaign:
        """Open the next wave now, also if guard rails hold it. Then only messages sent from now on count.

        `wave` and `reviewed` are the open wave and the digests that a user has seen. If they have changed, nothing is
        sent.
        """
        now = self._clock.now()
        async with self._database.write() as tx:
            campaign = await lock_campaign(tx, actor, campaign_id, CampaignAction.OPEN_WAVE)
            if reviewed is not None:
                require_reviewed(reviewed, review_started(campaign))
            entry = await entry_of(tx, campaign)
            if entry.wave is None or entry.content.waves is None:
                raise NotPossibleNow("The campaign has no further wave.")
            if wave is not None and wave != entry.wave:
                raise NotPossibleNow(
                    "Wave {wave} was opened meanwhile. Check its results, and confirm again.", wave=entry.wave
                )
            if entry.enqueue_ended_at is None:
                raise NotPossibleNow("The messages of the open wave are still being created. Try again in a moment.")
            await accept_incidents(tx, entry, self._rails, now)
            await open_wave(tx, entry, entry.content.waves, now, actor=actor.name)
            return await find_campaign(tx, campaign_id, actor.tenant_id)
