"""Put all sending on hold after the database was restored to an older state, until an operator releases it.

A restored backup does not know which messages were sent after it was made, so sending its due messages could send some
twice.
"""

from contextlib import suppress
from enum import StrEnum

import orjson
from sqlalchemy import Connection, Insert, delete, insert, select
from sqlalchemy.exc import IntegrityError

from mailwright.domain.clock import SECOND, Clock, Instant
from mailwright.domain.errors import NotDurable, NotPossibleNow
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.message import Event
from mailwright.domain.states import EventType
from mailwright.outbox import audit_log
from mailwright.outbox.settle import append_events, event_row, settle_proven
from mailwright.storage.database import Database, Transaction
from mailwright.storage.hot import Runner
from mailwright.storage.statements import statement
from mailwright.storage.tables import installation

FIND_HOLD = statement(__package__, "find_hold")
FIND_HOLD_OR_FAILOVER = statement(__package__, "find_hold_or_failover")
DOUBT_DUE = statement(__package__, "doubt_due")

HOLD = "sending_hold"
WATCH_TTL: Instant = SECOND
BATCH = 500
# Messages that may have been sent before the restore. They are never resent automatically.
ERROR_CODE = "DATABASE_RESTORED"
ERROR_REASON = "The database was restored from a backup. It is unknown whether this message was sent after the backup."
# Messages that may have been sent before a failover.
COMMITS_LOST = "COMMITS_LOST"
COMMITS_LOST_REASON = (
    "Another database server took over, which lacks the latest commits. It is unknown whether this message was sent."
)


class HoldReason(StrEnum):
    RESTORED = "database_restored"  # an older state of the same database
    REPLACED = "database_replaced"  # another database than the one that was used before
    UNMARKED = "database_unmarked"  # a database that was used before, without a marker on this machine
    REPORTED = "unknown_sends_reported"  # a provider reports messages that this database has never sent
    FAILED_OVER = "database_failed_over"  # another server took over; sending resumes after a comparison


@dataclass(frozen=True, slots=True)
class SendingHold:
    reason: HoldReason
    since: Instant
    detail: str


class DueMessages(StrEnum):
    """The decision about messages that were due when the hold began."""

    SEND = "send"
    IN_DOUBT = "in-doubt"


async def is_held(tx: Runner, database: Database) -> bool:
    """Return whether nothing may be sent: sending is on hold, or another server took over and was not compared yet."""
    return bool(await tx.run(FIND_HOLD_OR_FAILOVER if database.has_history else FIND_HOLD))


async def find_hold(database: Database) -> SendingHold | None:
    async with database.read() as tx:
        return await load_hold(tx)


async def require_hold(database: Database) -> SendingHold:
    hold = await find_hold(database)
    if hold is None:
        raise NotPossibleNow("Sending is not on hold. If it was, someone else has resumed it.")
    return hold


async def load_hold(tx: Runner) -> SendingHold | None:
    rows = await tx.run(FIND_HOLD)
    if not rows:
        return None
    stored = orjson.loads(rows[0].value)
    return SendingHold(HoldReason(stored["reason"]), stored["since"], stored["detail"])


class HoldWatch:
    """Caches the current hold, for callers that cannot afford a query each. It is read at most once per `WATCH_TTL`."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._hold: SendingHold | None = None
        self._read_at: Instant | None = None

    async def current(self) -> SendingHold | None:
        now = self._clock.now()
        # If the clock was set back, read again instead of reusing the old result.
        if self._read_at is None or not 0 <= now - self._read_at < WATCH_TTL:
            self._read_at = now
            with suppress(NotDurable):  # The message is already accepted, so a failed read must not fail the request.
                self._hold = await find_hold(self._database)
        return self._hold


async def hold_sending(database: Database, hold: SendingHold) -> bool:
    """Stop every worker of this database from claiming messages. Return whether sending was not on hold before.

    An existing hold is not replaced.
    """
    try:
        async with database.write() as tx:
            await record_hold(tx, hold)
    except IntegrityError:
        return False  # A restore or another process has put sending on hold.
    return True


async def record_hold(tx: Transaction, hold: SendingHold) -> None:
    """Hold sending in the caller's transaction, or raise `IntegrityError` if it is on hold already."""
    await tx.execute(_insert_hold(hold))
    await audit_log.record(
        tx,
        hold.since,
        actor=audit_log.SYSTEM,
        action="sending.hold",
        subject="installation",
        tenant_id=None,
        detail={"reason": hold.reason, "detail": hold.detail},
    )


def replace_hold(connection: Connection, hold: SendingHold) -> None:
    """Hold sending in the transaction that loads a backup."""
    connection.execute(delete(installation).where(installation.c.name == HOLD))
    connection.execute(_insert_hold(hold))


def _insert_hold(hold: SendingHold) -> Insert:
    value = orjson.dumps({"reason": hold.reason, "since": hold.since, "detail": hold.detail}).decode()
    return insert(installation).values(name=HOLD, value=value)


async def release_hold(database: Database, clock: Clock, *, actor: str, due: DueMessages) -> int:
    """Resume sending, and return the number of messages that were put in doubt.

    If someone else resumes it at the same time, only the first decision counts.
    """
    hold = await require_hold(database)
    doubted = await doubt_due(database, hold, clock.now(), only_reported=due is DueMessages.SEND)
    async with database.write() as tx:
        await _lock_hold(tx, hold)
        await tx.execute(delete(installation).where(installation.c.name == HOLD))
        await audit_log.record(
            tx,
            clock.now(),
            actor=actor,
            action="sending.release",
            subject="installation",
            tenant_id=None,
            detail={"reason": hold.reason, "due": due, "inDoubt": doubted},
        )
    return doubted


async def _lock_hold(tx: Transaction, hold: SendingHold) -> None:
    """Raise an error if the hold has ended. Otherwise it lasts until the transaction ends."""
    await tx.execute(select(installation.c.name).where(installation.c.name == HOLD).with_for_update())
    if await load_hold(tx) != hold:
        raise NotPossibleNow(
            "Someone else has resumed sending meanwhile. List the messages again to see what is left to decide."
        )


async def end_hold(tx: Transaction, reason: HoldReason) -> None:
    """End the hold with this reason, if there is one."""
    hold = await load_hold(tx)
    if hold is not None and hold.reason is reason:
        await tx.execute(delete(installation).where(installation.c.name == HOLD))


async def doubt_due(database: Database, hold: SendingHold, now: Instant, *, only_reported: bool = False) -> int:
    """Put due messages in doubt, and mark those as sent that a provider has reported.

    Return the number of messages in doubt.
    """
    count = 0
    code, reason = (
        (COMMITS_LOST, COMMITS_LOST_REASON) if hold.reason is HoldReason.FAILED_OVER else (ERROR_CODE, ERROR_REASON)
    )
    error = {"error_code": code, "error_reason": reason}
    while True:
        async with database.write() as tx:
            await _lock_hold(tx, hold)
            rows = await tx.run(
                DOUBT_DUE, since=hold.since, now=now, limit=BATCH, only_reported=int(only_reported), **error
            )
            metadata = {"errorCode": code, "errorMessage": reason}
            events = [
                event_row(row.message_key, row.tenant_id, Event(EventType.IN_DOUBT, now, metadata)) for row in rows
            ]
            if events:
                await append_events(tx, events)
            proven = await settle_proven(tx, [row.message_key for row in rows], now)
        count += len(rows) - proven
        if len(rows) < BATCH:
            return count
