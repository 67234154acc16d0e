"""Producing: something happened, and everyone who asked to hear of it gets a notification. For those who have no
program of their own that writes the queue."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
from sqlalchemy import and_, insert, literal, or_, select

from mailwright.domain.clock import Clock, Instant
from mailwright.domain.errors import InvalidInput, NotPossibleNow
from mailwright.sources.notifications import times
from mailwright.sources.notifications.event_kinds import OPEN_SEAT, EventKind, EventKinds
from mailwright.sources.notifications.queue import NotificationQueue
from mailwright.sources.notifications.statuses import ACTIVE, FanoutStatus
from mailwright.storage.database import Transaction

PRODUCER = "mailwright"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEvent:
    """What happened, to which subject: `term_id`, `campus_code` and `index_number` name it, as subscriptions do."""

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
    is_repeat: bool = False  # the same was told within the window: nothing was written


class EventProducer:
    def __init__(self, queue: NotificationQueue, clock: Clock, kinds: EventKinds) -> None:
        self._queue = queue
        self._clock = clock
        self._kinds = kinds

    async def emit(self, happening: NewEvent) -> EmittedEvent:
        """The event and all its notifications in one transaction. The same again within the window changes nothing."""
        kind = self._checked(happening)
        now = self._clock.now()
        key = happening.dedupe_key or _key(happening)
        async with self._queue.database.write() as tx:
            known = await self._known(tx, kind, key, now)
            if known is not None:
                return EmittedEvent(known, 0, is_repeat=True)
            open_event_id = await self._insert_event(tx, happening, key, now)
            return EmittedEvent(open_event_id, await self._insert_notifications(tx, happening, open_event_id, key, now))

    def _checked(self, happening: NewEvent) -> EventKind:
        if lacking := self._queue.tables.lacks_to_produce:
            raise NotPossibleNow(f"Events cannot be written here: the queue has no {', '.join(lacking)}.")
        kind = self._kinds.find(happening.kind)
        if kind is None:
            known = ", ".join(sorted(self._kinds.by_name))
            raise InvalidInput(f"no kind {happening.kind[:50]!r} is declared; there are {known}", field="eventType")
        if not kind.leads(happening.status_before, happening.status_after):
            before, after = (" or ".join(each) or "anything" for each in (kind.before, kind.after))
            raise InvalidInput(f"{kind.name} is a change from {before} to {after}", field="statusAfter")
        return kind

    async def _known(self, tx: Transaction, kind: EventKind, key: str, now: Instant) -> int | None:
        e = self._queue.tables.events.c
        query = (
            select(e.open_event_id, e.created_at).where(e.dedupe_key == key).order_by(e.open_event_id.desc()).limit(1)
        )
        for row in await tx.execute(query):
            since = times.parse(row.created_at)
            if since is not None and now - since < kind.dedupe_window:
                return int(row.open_event_id)
        return None

    async def _insert_event(self, tx: Transaction, happening: NewEvent, key: str, now: Instant) -> int:
        events = self._queue.tables.events
        payload = dict(happening.payload)
        if happening.kind != OPEN_SEAT:
            payload["eventType"] = happening.kind
        values = {
            "section_id": happening.section_id,
            "term_id": happening.term_id,
            "campus_code": happening.campus_code,
            "index_number": happening.index_number,
            "status_before": happening.status_before,
            "status_after": happening.status_after,
            "event_at": times.format_time(happening.event_at if happening.event_at is not None else now),
            "detected_by": PRODUCER,
            "dedupe_key": key,
            "trace_id": happening.trace_id,
            "payload": orjson.dumps(payload).decode(),
            "created_at": times.format_time(now),
        }
        there = {name: value for name, value in values.items() if name in events.c}
        [made] = await tx.execute(insert(events).values(**there).returning(events.c.open_event_id))
        return int(made.open_event_id)

    async def _insert_notifications(
        self, tx: Transaction, happening: NewEvent, open_event_id: int, key: str, now: Instant
    ) -> int:
        n, s = self._queue.tables.notifications, self._queue.tables.subscriptions.c
        subject = and_(
            s.term_id == happening.term_id,
            s.campus_code == happening.campus_code,
            s.index_number == happening.index_number,
        )
        if happening.section_id is not None and "section_id" in s:
            subject = or_(subject, s.section_id == happening.section_id)
        wanted = select(
            literal(open_event_id),
            s.subscription_id,
            literal(key),
            literal(FanoutStatus.PENDING.value),
            literal(0),
            literal(times.format_time(now)),
        ).where(s.status == ACTIVE, subject)
        columns = ["open_event_id", "subscription_id", "dedupe_key", "fanout_status", "fanout_attempts", "created_at"]
        made = await tx.execute(insert(n).from_select(columns, wanted).returning(n.c.notification_id))
        return len(made)


def _key(happening: NewEvent) -> str:
    """The same change of the same subject has the same key."""
    facts = (
        happening.kind,
        happening.term_id,
        happening.campus_code,
        happening.index_number,
        happening.status_before or "",
        happening.status_after,
    )
    return hashlib.sha256("\x1f".join(facts).encode()).hexdigest()[:32]
