"""Detect that a PostgreSQL server took over that lacks the latest commits, and find out what was sent meanwhile.

With asynchronous replication, a standby that is promoted lacks the commits of the last milliseconds to minutes. The
rows of messages that were sent are open again, and would be sent twice. The database therefore stores the history of
the server that was compared last (`storage/server_history.py`). While the server has another one, workers claim
nothing.

Meanwhile each machine compares the attempt files of its processes (`attempt_recorder.py`), also of killed ones, with
the rows: messages that a provider accepted are marked as sent, and those without a response are put in doubt. If the
files of a machine are missing or too short, everything that was due is put in doubt. Then sending resumes.
"""

import asyncio
import secrets
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeVar

import orjson
from sqlalchemy import delete, select

from mailwright.domain.clock import DAY, MINUTE, SECOND, Clock, Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.message import Event, Source
from mailwright.domain.states import VALIDATIONS, EventType
from mailwright.ops.logs import logger
from mailwright.outbox import audit_log
from mailwright.outbox.accept import recently_accepted
from mailwright.outbox.attempt_recorder import (
    AttemptState,
    RecordedAttempt,
    RecordedAttempts,
    has_records,
    read_records,
)
from mailwright.outbox.in_doubt import lost_attempt_events
from mailwright.outbox.installation_values import load_value, store_value
from mailwright.outbox.restore_guard import ADVANCED_AT, RESTORE_STEP, SEQUENCE, Mark, restored_hold
from mailwright.outbox.sending_hold import (
    COMMITS_LOST,
    COMMITS_LOST_REASON,
    HoldReason,
    SendingHold,
    doubt_due,
    end_hold,
    find_hold,
    load_hold,
    record_hold,
)
from mailwright.outbox.settle import append_events, event_row
from mailwright.storage.database import Database, Transaction
from mailwright.storage.server_history import COMPARED
from mailwright.storage.server_state import find_history
from mailwright.storage.statements import statement
from mailwright.storage.tables import installation

log = logger(__name__)
T = TypeVar("T")

FIND_LOST_COMMITS = statement(__package__, "find_lost_commits")
RESTORE_SENT = statement(__package__, "restore_sent")
DOUBT_LOST_ATTEMPTS = statement(__package__, "doubt_lost_attempts")
FIND_STORED = statement(__package__, "find_stored")

_FAILOVER: Final = "failover"
_RECORDS: Final = "attempt_records:"
# Machines whose attempt files were in use this long before the last report of any machine take part in a comparison.
IN_USE_WITHIN: Final[Instant] = 30 * SECOND
REPORT_EVERY: Final[Instant] = 5 * SECOND
# How long sending waits for the attempt files of the other machines.
WAIT_FOR_RECORDS: Final[Instant] = 20 * SECOND
# A worker that still runs records the response of an attempt within this time.
RESPONSE_GRACE: Final[Instant] = 30 * SECOND
FORGET_RECORDS_AFTER: Final[Instant] = 7 * DAY
SHOWN_FOR: Final[Instant] = 7 * DAY
# A server that lacks more than this was restored to an earlier state: also unsubscribes are missing.
LONGEST_LOSS: Final[Instant] = 10 * MINUTE
_BATCH: Final = 2_000
_DETAIL: Final = (
    "Another database server took over, which may lack the latest commits. Mailwright compares it with what was sent, "
    "and resumes sending by itself within a minute."
)
# If the database knows these oldest attempts of an attempt file, it knows those before it, too.
_OLDEST: Final = 64
# IDs of messages that are stored for health checks, and in one line of the log.
_EXAMPLES: Final = 20
_LOGGED: Final = 100


@dataclass(frozen=True, slots=True)
class Failover:
    """A change of the server's history, with what the comparison of all machines has found so far."""

    since: Instant
    former: str
    history: str
    waits_for: tuple[str, ...]  # the machines whose attempt files are compared
    compared: tuple[str, ...] = ()
    restored: int = 0  # messages marked as sent, because a provider had accepted them
    doubted: int = 0  # messages whose response is unknown
    lost: int = 0  # messages that a provider may have, and that the database does not have any more
    accepted_lost: int = 0  # accepted messages that the database does not have any more
    repeated: int = 0  # messages that were sent twice before they were compared
    examples: tuple[str, ...] = ()  # IDs of lost and repeated messages
    is_bulk_lost: bool = False  # whether some of the lost messages could be created again
    is_incomplete: bool = False  # whether a attempt file was missing or too short
    ended_at: Instant | None = None

    @property
    def has_losses(self) -> bool:
        found = self.restored + self.doubted + self.lost + self.accepted_lost + self.repeated
        return bool(found) or self.is_incomplete

    def plus(self, found: "Found", machine: str) -> "Failover":
        return replace(
            self,
            compared=(*self.compared, machine),
            restored=self.restored + found.restored,
            doubted=self.doubted + found.doubted,
            lost=self.lost + len(found.lost),
            repeated=self.repeated + len(found.repeated),
            examples=(*self.examples, *found.lost, *found.repeated)[:_EXAMPLES],
            is_bulk_lost=self.is_bulk_lost or found.is_bulk_lost,
            is_incomplete=self.is_incomplete or found.is_incomplete,
        )


@dataclass(slots=True)
class Found:
    """What the attempt files of a machine know and the database does not."""

    restored: int = 0
    doubted: int = 0
    lost: tuple[str, ...] = ()
    repeated: tuple[str, ...] = ()
    is_bulk_lost: bool = False
    is_incomplete: bool = False


@dataclass(frozen=True, slots=True)
class AttemptFolder:
    """The attempt files of this machine, its name in the database, and the history that was compared last."""

    path: Path

    def load(self) -> tuple[str, str | None]:
        try:
            stored = orjson.loads(self._file.read_bytes())
            return stored["machine"], stored["history"]
        except (OSError, ValueError, KeyError, TypeError):
            return f"{socket.gethostname()}-{secrets.token_hex(6)}", None

    def save(self, machine: str, history: str) -> None:
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = self.path / f"compared.{secrets.token_hex(8)}"
        new.write_bytes(orjson.dumps({"machine": machine, "history": history}))
        new.replace(self._file)

    @property
    def _file(self) -> Path:
        return self.path / "compared.json"


class FailoverGuard:
    """Compares the attempt files of this machine with the database whenever the history of its server has changed."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        folder: Path,
        *,
        pause_bulk: Callable[[], Awaitable[object]],
        newest_mark: Callable[[], Awaitable[Mark | None]],
    ) -> None:
        """Create the guard of a process. `folder` has the attempt files of this machine.

        `newest_mark` returns the latest state of the database that this process knows, and `pause_bulk` pauses
        everything that creates bulk email.
        """
        self._database = database
        self._clock = clock
        self._folder = AttemptFolder(folder)
        self._pause_bulk = pause_bulk
        self._newest_mark = newest_mark
        self._seen: str | None = None  # The history when this process looked last.
        self._reported_at: Instant | None = None

    async def check(self) -> None:
        """Compare the database with what was sent if another server took over; otherwise report its use."""
        history = await find_history(self._database)
        if history is None:
            return
        async with self._database.read() as tx:
            known = await load_value(tx, COMPARED)
        machine, compared = await asyncio.to_thread(self._folder.load)
        if known is None:
            await self._remember(history)
        elif known != history:
            await self._compare(known, history, machine)
        elif compared is not None and compared != history:
            await self._compare_late(history, machine)
        if self._seen not in (None, history):
            await self._report_accepted()
        self._seen = history
        if known in (None, history):
            await self._report_use(history, machine, is_new=compared is None)

    # One server took over from another.

    async def _compare(self, known: str, history: str, machine: str) -> None:
        failover = await self._begin(known, history)
        if failover is None:
            return
        if machine not in failover.compared:
            failover = await self._compare_records(history, machine)
        is_late = self._clock.now() - failover.since >= WAIT_FOR_RECORDS
        missing = set(failover.waits_for) - set(failover.compared)
        if not missing or is_late:
            await self._end(failover, missing)

    async def _begin(self, known: str, history: str) -> Failover | None:
        """Return the comparison with this history, and begin it if no other process has."""
        now, mark = self._clock.now(), await self._newest_mark()
        async with self._database.write() as tx:
            if await _lock_history(tx) == history:
                return None  # Another process has ended it.
            failover = await load_failover(tx)
            if failover is not None and failover.history == history and failover.ended_at is None:
                return failover
            hold = await load_hold(tx)
            if hold is not None and hold.reason is not HoldReason.FAILED_OVER:
                # Sending is on hold anyway, for example after a restore, and a person decides about what was due.
                await store_value(tx, COMPARED, history)
                return None
            if mark is None:
                # A backup that was restored at another address looks the same to this machine, which has never used
                # the database there. The check for restored backups decides, unless another machine compares.
                return None
            if await _is_much_older(tx, mark):
                await record_hold(tx, restored_hold(mark, now))
                await store_value(tx, COMPARED, history)
                return None
            failover = Failover(now, known, history, await _machines_in_use(tx))
            await _store(tx, failover)
            if hold is None:
                await record_hold(tx, SendingHold(HoldReason.FAILED_OVER, now, _DETAIL))
            # Higher than any marker, so that no machine takes this server for a restored backup.
            sequence = max(int(await load_value(tx, SEQUENCE) or 0), mark.sequence)
            await store_value(tx, SEQUENCE, str(sequence + RESTORE_STEP))
        log.error("database_failed_over", former=known, history=history, waitsFor=failover.waits_for)
        return failover

    async def _compare_records(self, history: str, machine: str) -> Failover:
        files = await asyncio.to_thread(read_records, self._folder.path)
        async with self._database.write() as tx:
            await _lock_history(tx)
            failover = await load_failover(tx)
            assert failover is not None
            if machine not in failover.compared:
                found = await compare(tx, files, failover.since, self._clock.now())
                failover = failover.plus(found, machine)
                await _store(tx, failover)
        await asyncio.to_thread(self._folder.save, machine, history)
        return failover

    async def _end(self, failover: Failover, missing: Collection[str]) -> None:
        """Resume sending. What the attempt files do not cover is put in doubt."""
        now = self._clock.now()
        is_incomplete = failover.is_incomplete or bool(missing)
        if missing:
            log.error("attempt_records_missing", machines=sorted(missing))
        doubted = await self._doubt_due() if is_incomplete else 0
        if is_incomplete or failover.is_bulk_lost:
            await self._pause_bulk()
        async with self._database.write() as tx:
            if await _lock_history(tx) == failover.history:
                return
            # Other processes have added what they found.
            latest = await load_failover(tx) or failover
            failover = replace(latest, doubted=latest.doubted + doubted, is_incomplete=is_incomplete, ended_at=now)
            await _store(tx, failover)
            await store_value(tx, COMPARED, failover.history)
            await end_hold(tx, HoldReason.FAILED_OVER)
            await audit_log.record(
                tx, now, actor=audit_log.SYSTEM, action="sending.release", subject="installation", tenant_id=None,
                detail={"reason": HoldReason.FAILED_OVER, **_figures(failover)},
            )  # fmt: skip
        log.warning("failover_compared", **_figures(failover))

    async def _doubt_due(self) -> int:
        hold = await find_hold(self._database)
        if hold is None or hold.reason is not HoldReason.FAILED_OVER:
            return 0  # A person has decided meanwhile.
        return await doubt_due(self._database, hold, self._clock.now())

    async def _compare_late(self, history: str, machine: str) -> None:
        """Compare the attempt files of a machine that was off when the other machines resumed sending."""
        now = self._clock.now()
        files = await asyncio.to_thread(read_records, self._folder.path)
        async with self._database.write() as tx:
            await _lock_history(tx)
            failover = await load_failover(tx)
            found = await compare(tx, files, now if failover is None else failover.since, now)
            if failover is not None:
                failover = failover.plus(found, machine)
                await _store(tx, failover)
        await asyncio.to_thread(self._folder.save, machine, history)
        if failover is not None and failover.has_losses:
            log.error("failover_compared_late", **_figures(failover))

    async def _report_accepted(self) -> None:
        """Report the messages that this process has accepted and the database does not have any more."""
        lost: list[str] = []
        for some in _batches(recently_accepted(self._database)):
            async with self._database.read() as tx:
                rows = await tx.run(FIND_STORED, wanted=[{"outbox_id": outbox_id} for outbox_id in some])
            lost += sorted(set(some) - {row.outbox_id for row in rows})
        if not lost:
            return
        _log_ids("accepted_messages_lost", lost)
        async with self._database.write() as tx:
            await _lock_history(tx)
            failover = await load_failover(tx)
            if failover is not None:
                examples = (*failover.examples, *lost)[:_EXAMPLES]
                accepted_lost = failover.accepted_lost + len(lost)
                await _store(tx, replace(failover, accepted_lost=accepted_lost, examples=examples))

    # The same server as before.

    async def _remember(self, history: str) -> None:
        async with self._database.write() as tx:
            await store_value(tx, COMPARED, history)

    async def _report_use(self, history: str, machine: str, *, is_new: bool) -> None:
        """Record that this machine uses the database, so that others wait for its attempt files after a failover."""
        now = self._clock.now()
        if self._reported_at is not None and 0 <= now - self._reported_at < REPORT_EVERY:
            return
        self._reported_at = now
        if is_new:
            await asyncio.to_thread(self._folder.save, machine, history)
        if not await asyncio.to_thread(has_records, self._folder.path):
            return  # This machine sends nothing.
        name, old = installation.c.name, now - FORGET_RECORDS_AFTER
        async with self._database.write() as tx:
            await store_value(tx, f"{_RECORDS}{machine}", str(now))
            for former, at in await _load_machines(tx):
                if at < old:
                    await tx.execute(delete(installation).where(name == f"{_RECORDS}{former}"))


async def find_failover(database: Database, now: Instant) -> Failover | None:
    """Return the last failover that lost commits, if it is recent."""
    async with database.read() as tx:
        failover = await load_failover(tx)
    if failover is None or not failover.has_losses or now - failover.since > SHOWN_FOR:
        return None
    return failover


async def load_failover(tx: Transaction) -> Failover | None:
    stored = await load_value(tx, _FAILOVER)
    if stored is None:
        return None
    values: dict[str, Any] = orjson.loads(stored)
    lists: dict[str, Any] = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
    return Failover(**values | lists)


async def accept_history(database: Database) -> None:
    """Take the server as it is, because its content was just restored and sending is on hold."""
    history = await find_history(database)
    async with database.write() as tx:
        names = [COMPARED, _FAILOVER, *(f"{_RECORDS}{machine}" for machine, _ in await _load_machines(tx))]
        await tx.execute(delete(installation).where(installation.c.name.in_(names)))
        if history is not None:
            await store_value(tx, COMPARED, history)


async def compare(tx: Transaction, files: Sequence[RecordedAttempts], since: Instant, now: Instant) -> Found:
    """Compare attempts with the database. Mark messages as sent, or put them in doubt, that it has as not sent.

    `since` is the time of the failover.
    """
    found = Found()
    for file in files:
        rows = [row async for row in _lost_commits(tx, file.attempts, since)]
        await _restore(tx, rows, found, now)
        lost = [row for row in rows if row.is_message_lost and row.state != AttemptState.NOT_SENT]
        lost = [row for row in lost if now - row.at < DAY]  # Retention may have deleted older ones.
        found.lost += tuple(row.outbox_id for row in lost)
        # Their sources do not know any more that they have created these messages, and may do it again.
        found.is_bulk_lost |= any(row.source != Source.API for row in lost)
        oldest = {attempt.message_key for attempt in file.attempts[:_OLDEST]}
        unknown = {row.message_key for row in rows if row.is_message_lost or row.is_attempt_lost}
        found.is_incomplete |= file.is_cut and oldest <= unknown
    _log_ids("sent_messages_lost", found.lost)
    _log_ids("messages_sent_twice", found.repeated)
    return found


def _log_ids(event: str, outbox_ids: Sequence[str]) -> None:
    """Log all of these messages, because nothing else names them."""
    for start in range(0, len(outbox_ids), _LOGGED):
        some = outbox_ids[start : start + _LOGGED]
        log.error(event, messages=len(outbox_ids), outboxIds=list(some))


async def _lost_commits(tx: Transaction, attempts: Iterable[RecordedAttempt], since: Instant) -> AsyncIterator[Any]:
    for some in _batches(attempts):
        for row in await tx.run(FIND_LOST_COMMITS, attempts=[attempt._asdict() for attempt in some], since=since):
            yield row


async def _restore(tx: Transaction, rows: Sequence[Any], found: Found, now: Instant) -> None:
    present = [row for row in rows if not row.is_message_lost]
    sent = [row for row in present if row.state == AttemptState.SENT]
    repeated = [row for row in sent if row.status == "SENT" and not row.is_attempt_lost]
    found.repeated += tuple(row.outbox_id for row in repeated)
    unsettled = {row.message_key: row for row in sent if row.status != "SENT"}
    unknown = {row.message_key: row for row in present if row.state == AttemptState.BEGUN and row.is_attempt_lost}
    for some in _batches(unsettled.values()):
        restored = await tx.run(RESTORE_SENT, attempts=[_values(row) for row in some])
        found.restored += len(restored)
        events = [event for row in restored for event in _sent_events(row, unsettled[row.message_key], now)]
        await append_events(tx, events)
    for some in _batches(unknown.values()):
        doubted = await tx.run(
            DOUBT_LOST_ATTEMPTS,
            attempts=[_values(row) for row in some],
            now=now,
            decide_at=now + RESPONSE_GRACE,
            error_code=COMMITS_LOST,
            error_reason=COMMITS_LOST_REASON,
        )
        found.doubted += len(doubted)
        await append_events(
            tx,
            [
                event_row(row.message_key, row.tenant_id, event)
                for row in doubted
                for event in lost_attempt_events(row, now)
            ],
        )


def _batches(values: Iterable[T]) -> Iterator[list[T]]:
    left = iter(list(values))
    while some := list(islice(left, _BATCH)):
        yield some


def _values(row: Any) -> dict[str, Any]:
    return {name: getattr(row, name) for name in ("message_key", "claim_token", "at", "provider")}


def _sent_events(restored: Any, attempt: Any, now: Instant) -> Iterator[dict[str, Any]]:
    """Return the events of an attempt that the database had lost. A message in doubt has all but the last one."""
    number = {"attempt": restored.attempts}
    handed = {**number, "provider": attempt.provider}
    begun = (
        Event(EventType.RECEIVED, attempt.at, number),
        Event(EventType.VALIDATED, attempt.at, {**number, "validations": VALIDATIONS}),
        Event(EventType.SENT_ATTEMPT, attempt.at, handed),
    )
    is_begun = attempt.status in ("IN_DOUBT", "CLOSED_UNKNOWN") and not attempt.is_attempt_lost
    sent = Event(EventType.SENT, now, {**handed, "settledBy": "attempt_records"})
    for event in (sent,) if is_begun else (*begun, sent):
        yield event_row(restored.message_key, restored.tenant_id, event)


async def _lock_history(tx: Transaction) -> str | None:
    """Let one process compare at a time, and return the history that was compared last."""
    rows = await tx.execute(select(installation.c.value).where(installation.c.name == COMPARED).with_for_update())
    return str(rows[0].value) if rows else None


async def _store(tx: Transaction, failover: Failover) -> None:
    await store_value(tx, _FAILOVER, orjson.dumps(asdict(failover)).decode())


async def _load_machines(tx: Transaction) -> list[tuple[str, Instant]]:
    rows = await tx.execute(select(installation).where(installation.c.name.startswith(_RECORDS, autoescape=True)))
    return [(row.name.removeprefix(_RECORDS), int(row.value)) for row in rows]


async def _machines_in_use(tx: Transaction) -> tuple[str, ...]:
    machines = await _load_machines(tx)
    latest = max((at for _, at in machines), default=0)
    return tuple(sorted(machine for machine, at in machines if at >= latest - IN_USE_WITHIN))


async def _is_much_older(tx: Transaction, mark: Mark) -> bool:
    """Return whether the server lacks so much that it looks like a restored backup, which a person decides about."""
    advanced_at = await load_value(tx, ADVANCED_AT)
    return advanced_at is not None and mark.at - int(advanced_at) > LONGEST_LOSS


def _figures(failover: Failover) -> dict[str, Any]:
    return {
        "restored": failover.restored,
        "inDoubt": failover.doubted,
        "lost": failover.lost,
        "acceptedLost": failover.accepted_lost,
        "repeated": failover.repeated,
        "isIncomplete": failover.is_incomplete,
        "outboxIds": list(failover.examples),
    }
