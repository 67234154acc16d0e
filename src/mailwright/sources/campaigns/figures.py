"""Figures of a campaign: what became known of its mails, and when. Read from the events of its own messages."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sqlalchemy import func, select

from mailwright.domain.clock import DAY, HOUR, MINUTE, Instant
from mailwright.domain.states import EventType
from mailwright.storage.database import Database
from mailwright.storage.tables import events, messages

TOLD: Final = (
    EventType.DELIVERED,
    EventType.OPENED,
    EventType.CLICKED,
    EventType.BOUNCED,
    EventType.COMPLAINED,
    EventType.UNSUBSCRIBED,
)
SHOWN: Final = (EventType.SENT, EventType.OPENED, EventType.CLICKED)
# A picture has no more steps than this, whatever its campaign took.
MOST_STEPS: Final = 48
STEPS: Final = (MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY)


@dataclass(frozen=True, slots=True)
class Step:
    begins_at: Instant
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Figures:
    """`readers`: of how many mails each thing is known; a mail that was opened twice counts once."""

    readers: Mapping[str, int]
    steps: tuple[Step, ...]
    length: Instant

    @property
    def largest(self) -> int:
        return max((count for step in self.steps for count in step.counts.values()), default=0)


async def figures(database: Database, campaign_key: int) -> Figures:
    mine = messages.c.campaign_key == campaign_key
    joined = messages.join(events, events.c.message_key == messages.c.id)
    minute = (events.c.created_at - events.c.created_at % MINUTE).label("minute")
    readers = select(events.c.type, func.count(events.c.message_key.distinct()).label("mails")).select_from(joined)
    times = select(events.c.type, minute, func.count().label("events")).select_from(joined)
    async with database.read() as tx:
        told = await tx.execute(readers.where(mine, events.c.type.in_(_values(TOLD))).group_by(events.c.type))
        when = await tx.execute(times.where(mine, events.c.type.in_(_values(SHOWN))).group_by(events.c.type, minute))
    steps, length = _steps({(str(row.type), int(row.minute)): int(row.events) for row in when})
    return Figures({str(row.type): int(row.mails) for row in told}, steps, length)


def _steps(found: Mapping[tuple[str, Instant], int]) -> tuple[tuple[Step, ...], Instant]:
    if not found:
        return (), MINUTE
    first, last = min(minute for _, minute in found), max(minute for _, minute in found)
    length = next((each for each in STEPS if (last - first) // each < MOST_STEPS), STEPS[-1])
    begins = first - first % length
    counts: dict[Instant, dict[str, int]] = {moment: {} for moment in range(begins, last + 1, length)}
    for (type_, minute), number in found.items():
        step = counts[minute - minute % length]
        step[type_] = step.get(type_, 0) + number
    return tuple(Step(moment, each) for moment, each in counts.items()), length


def _values(types: tuple[EventType, ...]) -> list[str]:
    return [each.value for each in types]
