"""Reports: a provider tells what became of a mail. Each is an event on the message's timeline, and ends a doubt."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mailwright.domain.clock import Clock, Instant
from mailwright.domain.errors import InvalidInput, NotFound
from mailwright.domain.ids import is_uuid
from mailwright.domain.message import Event
from mailwright.domain.states import EventType
from mailwright.outbox.operate import LOCK_MESSAGE
from mailwright.outbox.settle import APPEND_EVENTS, event_row
from mailwright.storage.database import Database
from mailwright.storage.hot import Runner
from mailwright.storage.statements import statement

FIND_REPORT = statement("mailwright.outbox", "find_report")
PROVE_SENT = statement("mailwright.outbox", "prove_sent")

# What only a provider can say. Each of them, good or bad, proves that the provider had the mail.
REPORTABLE = frozenset(
    {
        EventType.DELIVERED,
        EventType.OPENED,
        EventType.CLICKED,
        EventType.BOUNCED,
        EventType.COMPLAINED,
        EventType.UNSUBSCRIBED,
        EventType.DEFERRED,
    }
)


@dataclass(frozen=True, slots=True)
class Report:
    outbox_id: str
    type: EventType
    at: Instant
    provider_message_id: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


class Reports:
    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def record(self, report: Report, *, tenant_id: int) -> bool:
        """Writes the report once, however often it comes; true when it was new."""
        if report.type not in REPORTABLE:
            raise InvalidInput(f"{report.type} is not something that a provider reports", field="type")
        if not is_uuid(report.outbox_id):
            raise NotFound
        return await self._database.transact(lambda tx: _record(tx, report, tenant_id, self._clock.now()))


async def _record(tx: Runner, report: Report, tenant_id: int, now: Instant) -> bool:
    rows = await tx.run(LOCK_MESSAGE, outbox_id=report.outbox_id, tenant_id=tenant_id)
    if not rows:
        raise NotFound
    key = rows[0].message_key
    row = event_row(key, tenant_id, Event(report.type, report.at, report.metadata))
    if await tx.run(FIND_REPORT, message_key=key, type=report.type, metadata=row["metadata"]):
        return False
    entries = [row]
    proven = await tx.run(PROVE_SENT, message_key=key, provider_message_id=report.provider_message_id, now=now)
    if proven:
        evidence = {"settledBy": report.type, "providerMessageId": report.provider_message_id}
        entries.append(event_row(key, tenant_id, Event(EventType.SENT, now, evidence)))
    await tx.run(APPEND_EVENTS, events=entries)
    return True
