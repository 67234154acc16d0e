"""Hold a campaign whose audience has grown beyond the limit of the sender rules since it started."""

from dataclasses import replace
from typing import Final

from sqlalchemy import select

from mailwright.domain.campaign import SENDER_RULES
from mailwright.domain.clock import MINUTE, Clock, Instant
from mailwright.domain.message import Source
from mailwright.ops.logs import logger
from mailwright.outbox import defer
from mailwright.sources.campaigns.enqueue import ENQUEUED_STATUSES, count_new_recipients
from mailwright.sources.campaigns.entries import QueueEntry, find_entry, update_entry
from mailwright.sources.sender_rules import SenderRules, SenderRulesDecision
from mailwright.storage.database import Database, Transaction
from mailwright.storage.tables import lane_deferrals

# How often the rules are checked again for a campaign on hold.
RECHECK_EVERY: Final[Instant] = 10 * MINUTE

log = logger(__name__)


async def hold_if_rules_are_unmet(database: Database, clock: Clock, rules: SenderRules, campaign_key: int) -> bool:
    """Check the rules before a pass over the audience. Return whether the campaign is held."""
    now = clock.now()
    async with database.read() as tx:
        entry = await find_entry(tx, campaign_key)
        if entry is None or not _is_undecided(entry) or rules.find_route is None:
            return False
        if await _is_held(tx, entry, now):
            return True
    recipients = await _count_recipients(database, rules, entry, now)
    sender, has_postal = entry.content.payload.get("from"), entry.content.has_postal_address
    unmet = await rules.unmet(
        entry.tenant_id, Source.CAMPAIGN, recipients, sender=sender, has_postal_address=has_postal
    )
    if unmet is None:
        return False
    async with database.write() as tx:
        current = await find_entry(tx, campaign_key, to_change=True)
        if current is None or not _is_undecided(current):
            return False
        if unmet:
            log.warning("campaign_held", campaign=current.campaign_id, reason=SENDER_RULES, unmet=list(unmet))
            await defer.record_lane_deferral(tx, current.lane, SENDER_RULES, now + RECHECK_EVERY)
            return True
        decided = replace(current.content, sender_rules=SenderRulesDecision.MET)
        await update_entry(tx, campaign_key, content=decided.as_text())
    return False


async def _count_recipients(database: Database, rules: SenderRules, entry: QueueEntry, now: Instant) -> int:
    """Return the size of the audience; 0 if the rules do not apply to the provider, because counting takes long."""
    if (await rules.route_of(entry.tenant_id, Source.CAMPAIGN)).find_unmet is None:
        return 0
    async with database.read() as tx:
        return entry.recipients + await count_new_recipients(tx, entry, now)


def _is_undecided(entry: QueueEntry) -> bool:
    """Return whether a pass over the audience is about to begin without a decision about the rules."""
    is_starting = entry.enqueue_ended_at is None and entry.enqueued_to == ""
    return is_starting and entry.content.sender_rules is None and entry.campaign_status in ENQUEUED_STATUSES


async def _is_held(tx: Transaction, entry: QueueEntry, now: Instant) -> bool:
    held = (lane_deferrals.c.lane == entry.lane, lane_deferrals.c.defer_reason == SENDER_RULES)
    return bool(await tx.execute(select(lane_deferrals.c.lane).where(*held, lane_deferrals.c.deferred_until > now)))
