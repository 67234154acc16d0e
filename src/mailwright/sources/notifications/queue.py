"""Access to the tables of a notification queue.

Another program owns and writes these tables, so every read and write is one short transaction.
"""

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Select, Text, cast, func, null, or_, select

from mailwright.domain.clock import Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.sources.notifications import results, times
from mailwright.sources.notifications.decisions import DuplicateRow
from mailwright.sources.notifications.event_kinds import OPEN_SEAT
from mailwright.sources.notifications.jobs import NotificationRow, SectionDetails, section_of
from mailwright.sources.notifications.links import MessageLink
from mailwright.sources.notifications.results import NotificationResult
from mailwright.sources.notifications.section_details import load_details
from mailwright.sources.notifications.statuses import NOTIFY_SENT, FanoutStatus
from mailwright.sources.notifications.tables import (
    QueueStatements,
    QueueTables,
    contract_tables,
    inspect_tables,
    statements_of,
)
from mailwright.storage.database import Database, Transaction
from mailwright.storage.hot import Runner
from mailwright.storage.postgresql_url import hosts_of

# The format of `times.format_time`, as a pattern for LIKE.
OWN_TIME_FORMAT = "____-__-__T__:__:__.___Z"


@dataclass(frozen=True, slots=True)
class RowLock:
    """The worker and the time that are written into locked rows."""

    worker: str
    at: str


@dataclass(frozen=True, slots=True)
class RelatedRows:
    """Related facts of a page of rows: section details, sent counts by subscription, and duplicates."""

    details: Mapping[Any, SectionDetails]
    sent: Mapping[int, int]
    duplicates: Mapping[tuple[str, int], Sequence[DuplicateRow]]


@dataclass(frozen=True, slots=True)
class _RowColumns:
    """Column positions of a row joined with its event and its subscription."""

    row: tuple[str, ...]
    event: tuple[str, ...]
    subscription: tuple[str, ...]

    @classmethod
    def of(cls, tables: QueueTables) -> "_RowColumns":
        parts = (tables.notifications, tables.events, tables.subscriptions)
        return cls(*(tuple(column.name for column in part.c) for part in parts))

    def build_rows(self, records: Iterable[Sequence[Any]]) -> list[NotificationRow]:
        """Build the rows; rows of the same event share one event mapping."""
        event_from, subscription_from = len(self.row), len(self.row) + len(self.event)
        event_id = self.row.index("open_event_id")
        event_key = event_from + self.event.index("open_event_id")
        subscription_key = subscription_from + self.subscription.index("subscription_id")
        events: dict[Any, dict[str, Any]] = {}
        rows = []
        for record in records:
            event = events.get(record[event_id])
            if event is None and record[event_key] is not None:
                event = dict(zip(self.event, record[event_from:subscription_from], strict=True))
                events[record[event_id]] = event
            subscription = None
            if record[subscription_key] is not None:
                subscription = dict(zip(self.subscription, record[subscription_from:], strict=True))
            rows.append(_row(dict(zip(self.row, record[:event_from], strict=True)), event, subscription))
        return rows


class NotificationQueue:
    def __init__(
        self, database: Database, tables: QueueTables, schema: str | None, name: str, *, is_shared: bool
    ) -> None:
        self.database = database
        self.tables = tables
        self.schema = schema
        self.name = name
        self.is_shared = is_shared  # in the same database as the messages
        self.statements: QueueStatements = statements_of(schema)
        self._columns = _RowColumns.of(tables)
        self._has_notified_at = "last_notified_at" in tables.subscriptions.c

    async def pending(self, locked_before: Instant, after: int, limit: int) -> list[NotificationRow]:
        """Return pending rows ordered by id, except those that were locked at `locked_before` or later.

        Only lock times in Mailwright's own format are compared, as text; the caller must check other formats.
        """
        n = self.tables.notifications.c
        expired = n.locked_at < times.format_time(locked_before)
        free = or_(n.locked_at.is_(None), expired, n.locked_at.not_like(OWN_TIME_FORMAT))
        async with self.database.read() as tx:
            is_pending = await self._has_status(tx, FanoutStatus.PENDING)
            query = self._rows().where(is_pending, free, n.notification_id > after)
            return self._columns.build_rows(await tx.execute(query.order_by(n.notification_id).limit(limit)))

    async def find(self, notification_ids: Collection[int]) -> dict[int, NotificationRow]:
        query = self._rows().where(self.tables.notifications.c.notification_id.in_(list(notification_ids)))
        async with self.database.read() as tx:
            return {row.notification_id: row for row in self._columns.build_rows(await tx.execute(query))}

    async def newest(
        self, *, status: str | None, before: int, limit: int, kind: str | None = None
    ) -> list[NotificationRow]:
        """Return the newest rows first.

        The kind is only searched for in the JSON text of the event, so rows of another kind may be included.
        """
        n = self.tables.notifications.c
        query = self._rows().where(n.notification_id < before)
        if kind is not None and kind != OPEN_SEAT and "payload" in self.tables.events.c:
            query = query.where(cast(self.tables.events.c.payload, Text).contains(f'"{kind}"', autoescape=True))
        async with self.database.read() as tx:
            if status is not None:
                query = query.where(await self._has_status(tx, status))
            return self._columns.build_rows(await tx.execute(query.order_by(n.notification_id.desc()).limit(limit)))

    async def count_by_status(self) -> dict[str, int]:
        n = self.tables.notifications.c
        query = select(n.fanout_status, func.count().label("rows")).group_by(n.fanout_status)
        counts: Counter[str] = Counter()
        async with self.database.read() as tx:
            for row in await tx.execute(query):
                counts[status_word(row.fanout_status)] += row.rows
        return dict(counts)

    async def related(self, rows: Sequence[NotificationRow]) -> RelatedRows:
        async with self.database.read() as tx:
            return RelatedRows(
                await load_details(tx, self.tables, {each for row in rows if (each := section_of(row)) is not None}),
                await self._sent(tx, {row.subscription_id for row in rows}),
                await self._duplicates(tx, rows),
            )

    async def record(self, recorded: Sequence[tuple[MessageLink, NotificationResult]]) -> set[int]:
        return await self.database.transact(lambda tx: self.record_in(tx, recorded))

    async def record_in(self, tx: Runner, recorded: Sequence[tuple[MessageLink, NotificationResult]]) -> set[int]:
        """Record results inside the caller's transaction."""
        return await results.record_results(tx, self.statements, recorded, has_notified_at=self._has_notified_at)

    async def note(self, notes: Sequence[Mapping[str, Any]]) -> set[int]:
        """Change locked rows without ending their locks; return the ids of the changed rows."""
        noted = await self.database.transact(lambda tx: tx.run(self.statements.note_rows, notes=notes))
        return {row.notification_id for row in noted}

    async def renew_locks(self, held: Iterable[MessageLink], at: str) -> set[int]:
        rows = [_lock_row(link) for link in held]
        renewed = await self.database.transact(lambda tx: tx.run(self.statements.renew_rows, held=rows, at=at))
        return {row.notification_id for row in renewed}

    async def unlock(self, held: Iterable[tuple[int, str, str]]) -> None:
        names = ("notification_id", "locked_by", "locked_at")
        rows = [dict(zip(names, lock, strict=True)) for lock in held]
        if rows:
            await self.database.transact(lambda tx: tx.run(self.statements.unlock_rows, held=rows))

    async def lock(self, tx: Runner, rows: Sequence[NotificationRow], lock: RowLock) -> set[int]:
        """Lock the rows that are unchanged since they were read, and return their ids."""
        wanted = [
            {"notification_id": row.notification_id, "attempts": row.attempts, "locked_at": row.locked_at or ""}
            for row in rows
        ]
        locked = await tx.run(self.statements.lock_rows, wanted=wanted, worker=lock.worker, at=lock.at)
        return {row.notification_id for row in locked}

    async def requeue(self, notification_ids: Iterable[int]) -> set[int]:
        wanted = [{"notification_id": key} for key in notification_ids]
        if not wanted:
            return set()
        requeued = await self.database.transact(lambda tx: tx.run(self.statements.requeue_rows, wanted=wanted))
        return {row.notification_id for row in requeued}

    def _rows(self) -> Select[Any]:
        tables = self.tables
        n, e, s = tables.notifications, tables.events, tables.subscriptions
        return (
            select(n, *(each.label(f"e_{each.name}") for each in e.c), *(each.label(f"s_{each.name}") for each in s.c))
            .select_from(n)
            .outerjoin(e, e.c.open_event_id == n.c.open_event_id)
            .outerjoin(s, s.c.subscription_id == n.c.subscription_id)
        )

    async def _has_status(self, tx: Transaction, status: str) -> ColumnElement[bool]:
        """Return the condition that a row has this status, ignoring case and surrounding spaces.

        The stored spellings are looked up first, one index lookup for each, so that the condition can use the index.
        """
        stored = self.tables.notifications.c.fanout_status
        spellings = select(func.min(stored).label("spelling")).cte("spellings", recursive=True)
        following = select(func.min(stored)).where(stored > spellings.c.spelling).scalar_subquery()
        found = spellings.union_all(select(following).where(spellings.c.spelling.is_not(None)))
        rows = await tx.execute(select(found.c.spelling).where(found.c.spelling.is_not(None)))
        return stored.in_([row.spelling for row in rows if status_word(row.spelling) == status] or [status])

    async def _sent(self, tx: Transaction, subscriptions: Collection[int]) -> dict[int, int]:
        t = self.tables.timeline.c
        query = (
            select(t.subscription_id, func.count().label("sent"))
            .where(t.event_type == NOTIFY_SENT, t.subscription_id.in_(list(subscriptions)))
            .group_by(t.subscription_id)
        )
        return {row.subscription_id: row.sent for row in await tx.execute(query)}

    async def _duplicates(
        self, tx: Transaction, rows: Sequence[NotificationRow]
    ) -> dict[tuple[str, int], list[DuplicateRow]]:
        n, e = self.tables.notifications.c, self.tables.events.c
        columns = (n.notification_id, n.dedupe_key, n.subscription_id, n.fanout_status, n.locked_at, e.event_at)
        created_at = n.created_at if "created_at" in n else null().label("created_at")
        query = (
            select(*columns, created_at)
            .outerjoin_from(self.tables.notifications, self.tables.events, e.open_event_id == n.open_event_id)
            .where(
                n.dedupe_key.in_(list({row.dedupe_key for row in rows})),
                n.subscription_id.in_(list({row.subscription_id for row in rows})),
            )
        )
        found: dict[tuple[str, int], list[DuplicateRow]] = {}
        for row in await tx.execute(query.order_by(n.notification_id)):
            status = status_word(row.fanout_status)
            age_from = times.parse(row.created_at) or times.parse(row.event_at)
            duplicate = DuplicateRow(row.notification_id, status, age_from, row.locked_at)
            found.setdefault((row.dedupe_key, row.subscription_id), []).append(duplicate)
        return found


async def open_queue(
    database: Database, schema: str | None, *, is_shared: bool, name: str | None = None
) -> NotificationQueue:
    """Open the queue. Raises `ConfigurationInvalid` with everything that its tables lack."""
    return NotificationQueue(
        database,
        await inspect_tables(database, schema),
        schema,
        name or queue_name(database, schema),
        is_shared=is_shared,
    )


async def create_queue(database: Database, schema: str | None) -> None:
    """Create the tables that do not exist yet."""
    await database.run_sync_ddl(lambda connection: _create(connection, schema))


def queue_name(database: Database, schema: str | None) -> str:
    """Return a name that is the same for every worker of this queue and does not reveal its address."""
    url = database.url
    if database.dialect == "sqlite":
        place = str(Path(str(url.database)).resolve())
    else:
        place = f"{hosts_of(url)}:{url.port or ''}/{url.database}/{schema or ''}"
    return hashlib.blake2b(f"{database.dialect}:{place}".encode(), digest_size=8).hexdigest()


def _create(connection: Any, schema: str | None) -> None:
    with connection.begin():
        contract_tables(schema).create_all(connection)


def status_word(stored: Any) -> str:
    """Return a status as the statements compare it: without spaces around it and in lower case."""
    return str(stored or "").strip(" ").lower()


def _lock_row(link: MessageLink) -> dict[str, Any]:
    return {"notification_id": link.notification_id, "locked_by": link.locked_by, "locked_at": link.locked_at}


def _row(
    own: Mapping[str, Any], event: Mapping[str, Any] | None, subscription: Mapping[str, Any] | None
) -> NotificationRow:
    return NotificationRow(
        notification_id=own["notification_id"],
        open_event_id=own["open_event_id"],
        subscription_id=own["subscription_id"],
        dedupe_key=str(own["dedupe_key"] or ""),
        status=status_word(own["fanout_status"]),
        attempts=own["fanout_attempts"] or 0,
        last_attempt_at=own["last_attempt_at"],
        locked_by=own["locked_by"],
        locked_at=own["locked_at"],
        error=own["error"],
        created_at=own.get("created_at"),
        event=event,
        subscription=subscription,
    )
