"""Detect from trusted reports that the database was restored to an older state.

A report about a message that still waits for its first attempt shows that a newer state of this database sent it. That
message is held for a person. One such report can be an error of the provider, so only several messages hold all
sending. A report about an unknown message is only recorded, because another installation may use the same account.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

import orjson
from sqlalchemy.exc import IntegrityError

from mailwright.domain.clock import DAY, HOUR, Instant
from mailwright.domain.ids import created_at, is_uuid
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.report import Report
from mailwright.domain.retention import MIN_DAYS, RetentionKind
from mailwright.ops.logs import logger
from mailwright.outbox import reported
from mailwright.outbox.installation_values import insert_value, load_value, take_value
from mailwright.outbox.sending_hold import HoldReason, SendingHold, find_hold, hold_sending
from mailwright.storage.database import Database

log = logger(__name__)

_NAME: Final = "unknown_sends"
# This many messages that were reported before they were sent hold all sending. Some of them are named.
MESSAGES_TO_HOLD: Final = 3
# They must be reported within this time: single early reports over months show no older state of the database.
REPORTED_WITHIN: Final[Instant] = HOUR
MESSAGES_NAMED: Final = 5


@dataclass(frozen=True, slots=True)
class UnknownSends:
    """Messages that a provider reported, with an ID in our format that this database does not know."""

    reports: int
    since: Instant
    latest: Instant
    source: str  # the source of the latest report
    outbox_id: str  # the message ID in the latest report


async def examine(
    database: Database, never_sent: Mapping[int, Report], unknown: Sequence[Report], now: Instant
) -> None:
    """Put all sending on hold if trusted reports are about several messages that were never sent.

    Also record unknown messages.
    """
    if never_sent:
        latest = list(never_sent.values())[-1]
        log.error("unsent_message_reported", source=latest.source, outboxId=latest.outbox_id, reports=len(never_sent))
        held = await reported.find_unsent(database, now - REPORTED_WITHIN)
        if len(held) >= MESSAGES_TO_HOLD and await find_hold(database) is None:
            some = ", ".join(held[-MESSAGES_NAMED:])
            detail = (
                f"Within an hour, {len(held)} messages were reported that this database has never sent, the latest by "
                f"{latest.source}, such as {some}."
            )
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
