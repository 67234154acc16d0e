"""Write events and their notifications into a queue, for installations that have no producer."""

import hashlib
from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any

import orjson
from sqlalchemy import ColumnElement, and_, func, insert, literal, or_, select

from mailwright.domain.clock import Clock, Instant
from mailwright.domain.errors import InvalidInput, NotPossibleNow
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.sources.notifications import times
from mailwright.sources.notifications.event_kinds import OPEN_SEAT, EventKind, EventKinds
from mailwright.sources.notifications.jobs import SectionDetails, trimmed_text
from mailwright.sources.notifications.queue import NotificationQueue
from mailwright.sources.notifications.section_details import detected_section
from mailwright.sources.notifications.statuses import ACTIVE, FanoutStatus
from mailwright.storage.database import Transaction

PRODUCER = "mailwright"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEvent:
    """An event to write. `term_id`, `campus_code` and `index_number` identify its subject, as in subscriptions."""

    kind: str = OPEN_SEAT
    term_id: str
    campus_code: str
    index_number: str
    status_before: str | None = None
    status_after: str
    event_at: Instant | None = None
    section_id: int | None = None
    dedupe_key: str | None = None
    trace_id: str | None = None
    payload: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EmittedEvent:
    open_event_id: int
    notifications: int
    is_repeat: bool = False  # the same event was written within the dedupe window; nothing was written


class EventProducer:
    def __init__(self, queue: NotificationQueue, clock: Clock, kinds: EventKinds) -> None:
        self._queue = queue
        self._clock = clock
        self._kinds = kinds

    async def emit(self, event: NewEvent) -> EmittedEvent:
        """Write the event and its notifications in one transaction; skip a repeat within the dedupe window."""
        kind = self._check(event)
        now = self._clock.now()
        key = event.dedupe_key or _dedupe_key(event)
        async with self._queue.database.write() as tx:
            repeated = await self._find_repeat(tx, kind, key, event, now)
            if repeated is not None:
                return EmittedEvent(repeated, 0, is_repeat=True)
            open_event_id = await self._insert_event(tx, await self._with_detected_facts(tx, event), key, now)
            return EmittedEvent(open_event_id, await self._insert_notifications(tx, event, open_event_id, key, now))

    def _check(self, event: NewEvent) -> EventKind:
        if missing := self._queue.tables.missing_for_producer:
            raise NotPossibleNow(f"Events cannot be written: the queue has no {', '.join(missing)}.")
        kind = self._kinds.find(event.kind)
        if kind is None:
            known = ", ".join(sorted(self._kinds.by_name))
            raise InvalidInput(
                f"event kind {event.kind[:50]!r} is not declared; declared kinds: {known}", field="eventType"
            )
        if not kind.matches(event.status_before, event.status_after):
            before, after = (" or ".join(statuses) or "any status" for statuses in (kind.before, kind.after))
            raise InvalidInput(f"{kind.name} requires a change from {before} to {after}", field="statusAfter")
        return kind

    async def _find_repeat(
        self, tx: Transaction, kind: EventKind, key: str, event: NewEvent, now: Instant
    ) -> int | None:
        e = self._queue.tables.events.c
        has_creation = "created_at" in e
        happened_at = now if has_creation or event.event_at is None else event.event_at
        since_column = (e.created_at if has_creation else e.event_at).label("since")
        query = select(e.open_event_id, since_column).where(e.dedupe_key == key)
        for row in await tx.execute(query.order_by(e.open_event_id.desc()).limit(1)):
            since = times.parse(row.since)
            if since is not None and abs(happened_at - since) < kind.dedupe_window:
                return int(row.open_event_id)
        return None

    async def _with_detected_facts(self, tx: Transaction, event: NewEvent) -> NewEvent:
        """Add the facts of the section as they are now, so that later changes of its tables do not change the email.

        Facts that the event states itself stay as they are.
        """
        details = await detected_section(
            tx,
            self._queue.tables,
            section_id=event.section_id,
            term_id=event.term_id,
            campus_code=event.campus_code,
            index_number=event.index_number,
        )
        facts = {
            "courseTitle": trimmed_text(details.course.get("title")),
            "sectionNumber": trimmed_text(details.section.get("section_number")),
            "snapshotHash": _snapshot_hash(event, details),
        }
        given = {name: value for name, value in event.payload.items() if value is not None}
        payload = {**{name: value for name, value in facts.items() if value is not None}, **given}
        section_id = event.section_id if event.section_id is not None else details.section.get("section_id")
        return replace(event, section_id=section_id, payload=payload)

    async def _insert_event(self, tx: Transaction, event: NewEvent, key: str, now: Instant) -> int:
        events = self._queue.tables.events
        payload = dict(event.payload)
        if event.kind != OPEN_SEAT:
            payload["eventType"] = event.kind
        values = {
            "section_id": event.section_id,
            "term_id": event.term_id,
            "campus_code": event.campus_code,
            "index_number": event.index_number,
            "status_before": event.status_before,
            "status_after": event.status_after,
            "event_at": times.format_time(event.event_at if event.event_at is not None else now),
            "detected_by": PRODUCER,
            "dedupe_key": key,
            "trace_id": event.trace_id,
            "payload": orjson.dumps(payload).decode(),
            "created_at": times.format_time(now),
        }
        known_columns = {name: value for name, value in values.items() if name in events.c}
        [inserted] = await tx.execute(insert(events).values(**known_columns).returning(events.c.open_event_id))
        return int(inserted.open_event_id)

    async def _insert_notifications(
        self, tx: Transaction, event: NewEvent, open_event_id: int, key: str, now: Instant
    ) -> int:
        n, s = self._queue.tables.notifications, self._queue.tables.subscriptions.c
        subject = and_(
            s.term_id == event.term_id,
            s.campus_code == event.campus_code,
            s.index_number == event.index_number,
        )
        if event.section_id is not None and "section_id" in s:
            subject = or_(subject, s.section_id == event.section_id)
        values: dict[str, ColumnElement[Any]] = {
            "open_event_id": literal(open_event_id),
            "subscription_id": s.subscription_id,
            "dedupe_key": literal(key),
            "fanout_status": literal(FanoutStatus.PENDING.value),
            "fanout_attempts": literal(0),
            "created_at": literal(times.format_time(now)),
        }
        columns = [name for name in values if name in n.c]
        wanted = select(*(values[name] for name in columns)).where(func.lower(func.trim(s.status)) == ACTIVE, subject)
        inserted = await tx.execute(insert(n).from_select(columns, wanted).returning(n.c.notification_id))
        return len(inserted)


def _dedupe_key(event: NewEvent) -> str:
    """Return the same key for the same change of the same subject."""
    facts = (
        event.kind,
        event.term_id,
        event.campus_code,
        event.index_number,
        event.status_before or "",
        event.status_after,
    )
    return hashlib.sha256("\x1f".join(facts).encode()).hexdigest()[:32]


def _snapshot_hash(event: NewEvent, details: SectionDetails) -> str:
    """Return the same hash for the same facts about the same subject."""
    facts = {
        "termId": event.term_id,
        "campusCode": event.campus_code,
        "indexNumber": event.index_number,
        "statusBefore": event.status_before,
        "statusAfter": event.status_after,
        "section": dict(details.section),
        "course": dict(details.course),
        "meetings": [dict(meeting) for meeting in details.meetings],
    }
    return hashlib.sha256(orjson.dumps(facts, default=str, option=orjson.OPT_SORT_KEYS)).hexdigest()
