"""State in locked rows what happens to their messages, until there is a result.

A message in doubt is an attempt of its row. A provider that cannot be used costs no attempt, and the row names it.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from mailwright.domain.clock import SECOND, Clock, Instant
from mailwright.domain.errors import NotDurable
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.message import Source
from mailwright.domain.permits import DeferReason
from mailwright.domain.states import Status
from mailwright.outbox.provider_configurations import load_routes
from mailwright.outbox.workers import load_present, outage_of, present_for
from mailwright.sources.failing_rows import FailingRows
from mailwright.sources.notifications import links, times
from mailwright.sources.notifications.links import MessageLink
from mailwright.sources.notifications.queue import NotificationQueue
from mailwright.sources.notifications.results import DEFERRED, IN_DOUBT, MAX_ERROR_LENGTH
from mailwright.storage.database import Database
from mailwright.storage.statements import statement

SET_NOTED = statement(__package__, "set_noted")

# Rows changed in one write, as many as one statement takes as values (`storage/hot.py`).
BATCH = 250
# How often the reports of the workers about their providers are read.
OUTAGE_EVERY: Instant = SECOND


@dataclass(frozen=True, slots=True)
class Outage:
    """No worker can use a provider for the messages of the queue."""

    provider: str
    code: str
    message: str
    reason: str
    until: Instant


@dataclass(frozen=True, slots=True)
class RowNote:
    """What a row states about its message, and the mark by which the link remembers it."""

    mark: str
    error: Mapping[str, Any]
    attempted_at: Instant | None = None  # None if no provider was called


class RowNotes:
    def __init__(
        self, database: Database, clock: Clock, queue: NotificationQueue, failing: FailingRows, *, tenant_id: int
    ) -> None:
        self._database = database
        self._clock = clock
        self._queue = queue
        self._failing = failing
        self._tenant_id = tenant_id
        self._outage: Outage | None = None
        self._outage_read_at: Instant | None = None

    async def write(self) -> None:
        """Note every doubt and deferral that its row does not state yet."""
        now, after = self._clock.now(), 0
        outage = await self._current_outage(now)
        while True:
            async with self._database.read() as tx:
                found = await links.find_unsettled(
                    tx, self._queue.name, after, BATCH, outage="" if outage is None else outage.code
                )
            if not found:
                return
            after = found[-1].id
            notes = [(link, note) for link in found if (note := note_of(link, outage)) is not None]
            notes = [pair for pair in notes if not self._failing.contains(pair[0].row_key, now)]
            written = await self._write_in_queue(notes, now)
            await self._remember([(link, note) for link, note in notes if link.notification_id in written])

    async def _remember(self, written: Sequence[tuple[MessageLink, RowNote]]) -> None:
        marks = [{"id": link.id, "noted": note.mark} for link, note in written]
        if marks:
            await self._database.transact(lambda tx: tx.count(SET_NOTED, notes=marks))

    async def _current_outage(self, now: Instant) -> Outage | None:
        if self._outage_read_at is None or now - self._outage_read_at >= OUTAGE_EVERY:
            self._outage, self._outage_read_at = await find_outage(self._database, self._tenant_id, now), now
        return self._outage

    async def _write_in_queue(self, notes: Sequence[tuple[MessageLink, RowNote]], now: Instant) -> set[int]:
        """Write notes, each one alone if the queue refuses them together; return the ids of the changed rows."""
        if not notes:
            return set()
        try:
            rows = [_row(link, note) for link, note in notes]
            return await self._queue.note(rows)
        except NotDurable:
            raise
        except Exception as error:
            if len(notes) == 1:
                link = notes[0][0]
                self._failing.add(link.row_key, now, link.notification_id, error)
                return set()
        return {key for note in notes for key in await self._write_in_queue([note], now)}


def note_of(link: MessageLink, outage: Outage | None) -> RowNote | None:
    """Return what the row of an unfinished message states; None if there is nothing to state."""
    if link.status == Status.IN_DOUBT:
        error = {"provider": link.provider, "status": IN_DOUBT, **_error(link.error_code, link.error_reason)}
        if (pause := link.claimable_at - (link.in_doubt_since or 0)) > 0:
            error["retryAfterSeconds"] = math.ceil(pause / SECOND)
        return RowNote(f"IN_DOUBT {link.in_doubt_since}", error, link.in_doubt_since)
    if link.status not in (Status.PENDING, Status.RETRY_SCHEDULED) or link.is_parked:
        return None
    if link.error_code is not None and is_deferred_by_provider(link):
        error = {"provider": link.provider, "status": DEFERRED, **_error(link.error_code, link.error_reason)}
        return RowNote(f"DEFERRED {link.error_code}", error)
    if link.error_code is None and outage is not None:
        error = {"provider": outage.provider, "status": DEFERRED, **_error(outage.code, outage.message)}
        return RowNote(f"DEFERRED {outage.code}", error)
    return None


def is_deferred_by_provider(link: MessageLink) -> bool:
    return link.defer_reason in (DeferReason.PROVIDER_UNAVAILABLE, DeferReason.PROVIDER_THROTTLED)


async def find_outage(database: Database, tenant_id: int, now: Instant) -> Outage | None:
    """Return the outage of all providers that send the tenant's notifications, as their workers report it."""
    async with database.read() as tx:
        present = present_for(await load_present(tx, now), await load_routes(tx), tenant_id, Source.NOTIFICATION)
    deferral = outage_of(present, now)
    if deferral is None:
        return None
    first = min(present, key=lambda presence: presence.unavailable_until or 0)
    code, _, message = (first.unavailable_reason or deferral.reason).partition(": ")
    return Outage(first.provider, code, message, deferral.reason, deferral.until)


def _error(code: str | None, reason: str | None) -> dict[str, Any]:
    return {"code": code, "message": (reason or "")[:MAX_ERROR_LENGTH]}


def _row(link: MessageLink, note: RowNote) -> dict[str, Any]:
    return {
        "notification_id": link.notification_id,
        "locked_by": link.locked_by,
        "locked_at": link.locked_at,
        "attempts": link.attempts_before + link.calls,
        "attempted_at": None if note.attempted_at is None else times.format_time(note.attempted_at),
        "error": orjson.dumps(note.error).decode(),
    }
