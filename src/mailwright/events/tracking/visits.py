"""Unsubscribe people who open their unsubscribe link, but not scanners that open all links of an email."""

from typing import Any

from mailwright.audience import status
from mailwright.domain.clock import Clock, Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.states import EventType
from mailwright.events.response_judgement import NewResponse, is_machine_visit
from mailwright.events.tracking.bursts import UNSUBSCRIBE_LINK
from mailwright.events.tracking.drain import SOURCE
from mailwright.events.tracking.spool import Spool, TrackedHit
from mailwright.outbox.machine_responses import lock_responses
from mailwright.outbox.reported import ReportedMessage, find_by_outbox_id
from mailwright.storage.database import Database
from mailwright.storage.hot import Runner


@dataclass(frozen=True, slots=True)
class Visit:
    """A visit of the unsubscribe link of a message."""

    tenant_id: int
    email: str
    list_key: str
    message_id: str | None


async def unsubscribe_visitor(database: Database, clock: Clock, spool: Spool, visit: Visit, *, source: str) -> bool:
    """Unsubscribe the visitor and return True, unless it may be a machine's visit.

    A visit that turns out to be a machine's later is reverted: see `events/response_judgement.py`.
    """
    now = clock.now()

    async def work(tx: Runner) -> bool:
        if await _is_machine(tx, spool, visit, now):
            return False
        await status.unsubscribe_visitor(
            tx, visit.tenant_id, visit.email, visit.list_key, source=source, message_id=visit.message_id, now=now
        )
        return True

    return await database.transact(work)


async def _is_machine(tx: Runner, spool: Spool, visit: Visit, now: Instant) -> bool:
    if visit.message_id is None:
        return False
    message = (await find_by_outbox_id(tx, {visit.message_id})).get(visit.message_id)
    if message is None or message.tenant_id != visit.tenant_id:
        return False
    # Clicks that are recorded later wait for this transaction, and are then judged together with the visit.
    await lock_responses(tx, [message.message_key])
    spooled = [_response(message, hit.type, hit.at, **_link(hit)) for hit in spool.hits_of(visit.message_id)]
    visited = _response(message, EventType.CLICKED, now, url=UNSUBSCRIBE_LINK)
    return await is_machine_visit(tx, visited, spooled)


def _response(message: ReportedMessage, type_: EventType, at: Instant, **metadata: Any) -> NewResponse:
    return NewResponse("", message.message_key, message.sent_at, type_, at, metadata, SOURCE)


def _link(hit: TrackedHit) -> dict[str, Any]:
    return {"url": hit.url, "isInvisibleLink": hit.is_invisible_link}
