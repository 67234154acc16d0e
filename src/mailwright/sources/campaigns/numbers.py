"""The numbers of a campaign, loaded by one function for the API, the command line and the dashboard."""

from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.states import EventType
from mailwright.outbox.tallies import MACHINE
from mailwright.sources.campaigns.ab_test import AbTestReport, load_report
from mailwright.sources.campaigns.engagement import CampaignEngagement, load_engagement
from mailwright.sources.campaigns.entries import find_entry
from mailwright.sources.campaigns.progress import (
    CampaignMessageCounts,
    QueuePosition,
    count_messages,
    find_position,
    sent_through,
)
from mailwright.sources.campaigns.records import Campaign
from mailwright.sources.campaigns.statistics import count_results
from mailwright.storage.database import Readable, Transaction


@dataclass(frozen=True, slots=True)
class CampaignResults:
    """The reports about the campaign's messages. Each recipient counts once, even with several reports."""

    delivered: int
    opened: int
    clicked: int
    complained: int
    unsubscribed: int
    replied: int
    auto_replied: int


@dataclass(frozen=True, slots=True)
class CampaignNumbers:
    """The position of a started campaign, its audience by bucket, and the results."""

    position: QueuePosition
    counts: CampaignMessageCounts
    results: CampaignResults
    ab_test: AbTestReport | None = None
    engagement: CampaignEngagement | None = None
    sent_through: frozenset[str] = frozenset()  # the names of providers


async def load_numbers(database: Readable, campaign: Campaign) -> CampaignNumbers | None:
    """Return the numbers of a campaign, or None before it starts."""
    async with database.read() as tx:
        position = await find_position(tx, campaign.key)
        if position is None:
            return None
        counts = await count_messages(tx, position)
        reported = await count_results(tx, campaign.key)
        ab_test = await load_ab_test(tx, campaign)
        engagement = await load_engagement(tx, campaign.key, reported)
        through = await sent_through(tx, campaign.key)
    results = CampaignResults(
        delivered=reported[EventType.DELIVERED],
        opened=reported[EventType.OPENED],
        clicked=reported[EventType.CLICKED],
        complained=reported[EventType.COMPLAINED],
        unsubscribed=reported[EventType.UNSUBSCRIBED],
        replied=reported[EventType.REPLIED],
        auto_replied=reported[f"{MACHINE}{EventType.REPLIED}"],
    )
    return CampaignNumbers(position, counts, results, ab_test, engagement, through)


async def load_ab_test(tx: Transaction, campaign: Campaign) -> AbTestReport | None:
    """Return the report of the campaign's A/B test, if it has one and has started."""
    settings = campaign.definition.ab_test
    entry = await find_entry(tx, campaign.key) if settings is not None else None
    return None if settings is None or entry is None else await load_report(tx, entry, settings)
