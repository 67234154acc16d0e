"""Detect from trusted reports that the database was restored to an older state.

A report about a message that still waits for its first attempt proves that a newer state of this database sent it. A
report about an unknown message is only recorded, because another installation may use the same provider account.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import orjson
from sqlalchemy.exc import IntegrityError

from mailwright.domain.clock import DAY, Instant
from mailwright.domain.ids import created_at, is_uuid
from mailwright.domain.report import Report
from mailwright.domain.retention import MIN_DAYS, RetentionKind
from mailwright.ops.logs import logger
from mailwright.outbox.installation_values import insert_value, load_value, take_value
from mailwright.outbox.sending_hold import HoldReason, SendingHold, find_hold, hold_sending
from mailwright.storage.database import Database

log = logger(__name__)

_NAME: Final = "unknown_sends"


@dataclass(frozen=True, slots=True)
class UnknownSends:
    """Messages that a provider reported, with an ID in our format that this database does not know."""

    reports: int
    since: Instant
    latest: Instant
    source: str  # the source of the latest report
    outbox_id: str  # the message ID in the latest report


async def examine(database: Database, never_sent: Sequence[Report], unknown: Sequence[Report], now: Instant) -> None:
    """Put sending on hold if a trusted report is about a message that was never sent. Record unknown messages."""
    if never_sent and await find_hold(database) is None:
        report = never_sent[0]
        detail = f"{report.source} reported the message {report.outbox_id}, which this database has never sent."
        await hold_sending(database, SendingHold(HoldReason.REPORTED, now, detail))
        log.error("sending_held", reason=HoldReason.REPORTED, detail=detail)
    # Retention may have deleted an older message, so its report says nothing about the database.
    since = now - MIN_DAYS[RetentionKind.MESSAGES] * DAY
    named = [
        report
        for report in unknown
        if report.outbox_id is not None and is_uuid(report.outbox_id) and created_at(report.outbox_id) >= since
    ]
    if named:
        await _record(database, named, now)


async def find_unknown_sends(database: Database) -> UnknownSends | None:
    async with database.read() as tx:
        return _unknown_sends(await load_value(tx, _NAME))


def _unknown_sends(stored: str | None) -> UnknownSends | None:
    return None if stored is None else UnknownSends(**orjson.loads(stored))


async def _record(database: Database, named: Sequence[Report], now: Instant) -> None:
    latest = named[-1]
    log.warning("unknown_message_reported", source=latest.source, outboxId=latest.outbox_id, reports=len(named))
    with suppress(IntegrityError):  # Another process recorded its reports at the same time.
        await _add(database, len(named), latest, now)


async def _add(database: Database, reports: int, latest: Report, now: Instant) -> None:
    async with database.write() as tx:
        before = _unknown_sends(await take_value(tx, _NAME))
        earlier, since = (before.reports, before.since) if before else (0, now)
        found = UnknownSends(earlier + reports, since, now, latest.source, latest.outbox_id or "")
        await insert_value(tx, _NAME, orjson.dumps(found).decode())
