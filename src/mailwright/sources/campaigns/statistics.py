"""Statistics of a campaign: the reports about its messages, and their times."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from mailwright.domain.clock import DAY, HOUR, MINUTE, Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.states import EventType
from mailwright.outbox.tallies import (
    MACHINE,
    CampaignTally,
    count_campaign_messages,
    load_campaign_tallies,
    load_untallied,
)
from mailwright.storage.database import Readable, Transaction

COUNTED_EVENTS: Final = (
    EventType.DELIVERED,
    EventType.OPENED,
    EventType.CLICKED,
    EventType.BOUNCED,
    EventType.COMPLAINED,
    EventType.UNSUBSCRIBED,
    EventType.REPLIED,
)
CHARTED_EVENTS: Final = (EventType.SENT, EventType.OPENED, EventType.CLICKED)
# A chart has at most this many intervals.
MAX_INTERVALS: Final = 48
# A longer campaign is charted in intervals of an hour or more.
_MAX_SPAN_BY_MINUTE: Final = 12 * HOUR
INTERVAL_LENGTHS: Final = (MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY)


@dataclass(frozen=True, slots=True)
class StatisticsInterval:
    begins_at: Instant
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class CampaignStatistics:
    """`messages` is the number of messages by event type; a message that was opened twice counts once."""

    messages: Mapping[str, int]
    intervals: tuple[StatisticsInterval, ...]
    length: Instant

    @property
    def largest(self) -> int:
        return max((count for interval in self.intervals for count in interval.counts.values()), default=0)


async def campaign_statistics(database: Readable, campaign_key: int) -> CampaignStatistics:
    """Return the statistics from the tallies, because the events of a large campaign take seconds to read."""
    charted = [event.value for event in CHARTED_EVENTS]
    async with database.read() as tx:
        untallied = await load_untallied(tx, campaign_key)
        messages = await _count_messages(tx, campaign_key, untallied)
        tallies, length = await load_campaign_tallies(tx, campaign_key, HOUR, charted), HOUR
        if _span([*tallies, *untallied]) <= _MAX_SPAN_BY_MINUTE:
            tallies, length = await load_campaign_tallies(tx, campaign_key, MINUTE, charted), MINUTE
    counts = Counter[tuple[str, Instant]]()
    for tally in (*tallies, *untallied):
        if tally.type in CHARTED_EVENTS:
            counts[tally.type, tally.begins_at - tally.begins_at % length] += tally.events
    intervals, length = _intervals(counts)
    machines = [f"{MACHINE}{event}" for event in (EventType.OPENED, EventType.CLICKED, EventType.REPLIED)]
    counted = {event: messages[event] for event in (*COUNTED_EVENTS, *machines) if messages[event]}
    return CampaignStatistics(counted, intervals, length)


async def count_results(tx: Transaction, campaign_key: int) -> Counter[str]:
    """Return the number of messages with each type of event."""
    return await _count_messages(tx, campaign_key, await load_untallied(tx, campaign_key))


async def _count_messages(tx: Transaction, campaign_key: int, untallied: Sequence[CampaignTally]) -> Counter[str]:
    messages = Counter(await count_campaign_messages(tx, campaign_key))
    for tally in untallied:
        messages[tally.type] += tally.unique_messages
    return messages


def _span(tallies: Sequence[CampaignTally]) -> Instant:
    """Return the time from the first hour to the last one."""
    hours = [tally.begins_at - tally.begins_at % HOUR for tally in tallies if tally.type in CHARTED_EVENTS]
    return max(hours, default=0) - min(hours, default=0)


def _intervals(counts: Mapping[tuple[str, Instant], int]) -> tuple[tuple[StatisticsInterval, ...], Instant]:
    if not counts:
        return (), MINUTE
    first, last = min(time for _, time in counts), max(time for _, time in counts)
    length = next((each for each in INTERVAL_LENGTHS if (last - first) // each < MAX_INTERVALS), INTERVAL_LENGTHS[-1])
    begins = first - first % length
    by_interval: dict[Instant, dict[str, int]] = {time: {} for time in range(begins, last + 1, length)}
    for (event, time), number in counts.items():
        interval = by_interval[time - time % length]
        interval[event] = interval.get(event, 0) + number
    return tuple(StatisticsInterval(time, each) for time, each in by_interval.items()), length
