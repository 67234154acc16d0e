"""Figures of a campaign: what became known of its mails, and when."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mailwright.domain.clock import DAY, HOUR, MINUTE, Instant
from mailwright.domain.states import EventType
from mailwright.outbox.tallies import CampaignTally, count_campaign_messages, load_campaign_tallies, load_untallied
from mailwright.storage.database import Database

COUNTED_EVENTS: Final = (
    EventType.DELIVERED,
    EventType.OPENED,
    EventType.CLICKED,
    EventType.BOUNCED,
    EventType.COMPLAINED,
    EventType.UNSUBSCRIBED,
)
CHARTED_EVENTS: Final = (EventType.SENT, EventType.OPENED, EventType.CLICKED)
# A picture has no more steps than this, whatever its campaign took.
MAX_INTERVALS: Final = 48
# What took longer has steps of hours and more, whichever minute it began and ended in.
_MINUTES_UP_TO: Final = 12 * HOUR
INTERVAL_LENGTHS: Final = (MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY)


@dataclass(frozen=True, slots=True)
class StatisticsInterval:
    begins_at: Instant
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class CampaignStatistics:
    """`readers`: of how many mails each thing is known; a mail that was opened twice counts once."""

    readers: Mapping[str, int]
    steps: tuple[StatisticsInterval, ...]
    length: Instant

    @property
    def largest(self) -> int:
        return max((count for step in self.steps for count in step.counts.values()), default=0)


async def campaign_statistics(database: Database, campaign_key: int) -> CampaignStatistics:
    """From the tallies: the events themselves of a large campaign take seconds to look at."""
    shown = [each.value for each in CHARTED_EVENTS]
    async with database.read() as tx:
        fresh = await load_untallied(tx, campaign_key)
        readers = Counter(await count_campaign_messages(tx, campaign_key))
        drawn, length = await load_campaign_tallies(tx, campaign_key, HOUR, shown), HOUR
        if _span([*drawn, *fresh]) <= _MINUTES_UP_TO:
            drawn, length = await load_campaign_tallies(tx, campaign_key, MINUTE, shown), MINUTE
    for each in fresh:
        readers[each.type] += each.unique_messages
    when = Counter[tuple[str, Instant]]()
    for each in (*drawn, *fresh):
        if each.type in CHARTED_EVENTS:
            when[each.type, each.begins_at - each.begins_at % length] += each.events
    steps, length = _steps(when)
    return CampaignStatistics({name.value: readers[name] for name in COUNTED_EVENTS if readers[name]}, steps, length)


def _span(happened: Sequence[CampaignTally]) -> Instant:
    """From the first hour to the last one, whether it is added up or not."""
    moments = [each.begins_at - each.begins_at % HOUR for each in happened if each.type in CHARTED_EVENTS]
    return max(moments, default=0) - min(moments, default=0)


def _steps(found: Mapping[tuple[str, Instant], int]) -> tuple[tuple[StatisticsInterval, ...], Instant]:
    if not found:
        return (), MINUTE
    first, last = min(minute for _, minute in found), max(minute for _, minute in found)
    length = next((each for each in INTERVAL_LENGTHS if (last - first) // each < MAX_INTERVALS), INTERVAL_LENGTHS[-1])
    begins = first - first % length
    counts: dict[Instant, dict[str, int]] = {moment: {} for moment in range(begins, last + 1, length)}
    for (type_, minute), number in found.items():
        step = counts[minute - minute % length]
        step[type_] = step.get(type_, 0) + number
    return tuple(StatisticsInterval(moment, each) for moment, each in counts.items()), length
