"""Keep the suppressions of a database that a backup replaces, so that nobody who unsubscribed gets email again."""

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson
from sqlalchemy import ColumnElement, Connection, insert, or_, select

from mailwright.audience.importing.store import ERASURE
from mailwright.audience.status import (
    StatusFact,
    SuppressionReason,
    apply_facts,
    bounce_fact,
    complaint_fact,
    unsubscribe_fact,
)
from mailwright.audience.suppressions import ALL_MESSAGES
from mailwright.domain.clock import Clock, Instant
from mailwright.ops.logs import logger
from mailwright.outbox.restore_guard import DATABASE_ID
from mailwright.storage.database import Database
from mailwright.storage.hot import Runner
from mailwright.storage.tables import contacts, installation, suppressions, tenants

_PAGE: Final = 10_000
_BATCH: Final = 500
_DATABASE_ID: Final = select(installation.c.value).where(installation.c.name == DATABASE_ID)
_TENANTS: Final = select(tenants.c.id, tenants.c.name)

log = logger(__name__)


class _Entry(NamedTuple):
    tenant_id: int
    email: str
    list_key: str
    reason: str
    source: str
    created_at: Instant


class RestoredSuppressions:
    """The suppressions of the replaced database (in a file, because there may be many), and those that the backup
    lacked.

    All of them are compared, not only new ones: reports arrive late, and a suppression has the time of its cause.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._database_id: str | None = None
        self._tenants: Mapping[int, str] = {}
        self._added: list[_Entry] = []
        self.is_known = False  # Whether the suppressions since the backup are known.

    @property
    def kept(self) -> dict[str, int]:
        """The number of suppressions that the backup lacked, by reason."""
        return dict(Counter(entry.reason for entry in self._added))

    async def save(self, replaced: Database) -> None:
        """Copy the suppressions of the database that is about to be replaced, if it can be read."""
        try:
            async with replaced.read() as tx:
                self._database_id = next((row.value for row in await tx.execute(_DATABASE_ID)), None)
                self._tenants = {row.id: row.name for row in await tx.execute(_TENANTS)}
            with self._file.open("wb") as file:
                async for page in _pages(replaced):
                    file.writelines(orjson.dumps(entry) + b"\n" for entry in page)
        except OSError:  # There is no space for the file.
            raise
        except Exception as error:  # It may be damaged or empty, which must not prevent its restore.
            log.warning("replaced_database_unreadable", reason=type(error).__name__)
            return
        self.is_known = True

    def add_to(self, connection: Connection) -> None:
        """Add the entries that the backup lacks, in the transaction that loads it: a crash cannot lose them."""
        if not self.is_known:
            return
        restored_id = connection.execute(_DATABASE_ID).scalar()
        if None not in (restored_id, self._database_id) and restored_id != self._database_id:
            self.is_known = False  # The backup is of another installation.
            return
        names = {row.id: row.name for row in connection.execute(_TENANTS)}
        shared = {key for key, name in self._tenants.items() if names.get(key) == name}
        s = suppressions.c
        for entries in self._batches():
            of_shared = [entry for entry in entries if entry.tenant_id in shared]
            query = select(s.tenant_id, s.email, s.list_key).where(*_matching(s, of_shared))
            existing = set(connection.execute(query).tuples())
            missing = [entry for entry in of_shared if entry[:3] not in existing]
            if missing:
                connection.execute(insert(suppressions), [entry._asdict() for entry in missing])
                self._added += missing

    async def apply(self, database: Database, clock: Clock) -> None:
        """Set the status of the restored contacts, end their subscriptions, and end their runs through sequences."""
        for start in range(0, len(self._added), _BATCH):
            entries = self._added[start : start + _BATCH]
            existing = await _find_contacts(database, entries)
            facts = [fact for entry in entries if entry[:2] in existing and (fact := _fact(entry)) is not None]

            async def work(tx: Runner, facts: Sequence[StatusFact] = facts) -> None:
                await apply_facts(tx, facts, clock.now())

            await database.transact(work)

    def _batches(self) -> Iterator[list[_Entry]]:
        with self._file.open("rb") as file:
            while lines := list(islice(file, _BATCH)):
                yield [_Entry(*orjson.loads(line)) for line in lines]


async def _pages(database: Database) -> AsyncIterator[list[tuple[Any, ...]]]:
    s, after = suppressions.c, 0
    # The entry for all messages of an unfinished erasure ends with it, and the person is erased again.
    is_lasting = or_(s.list_key != ALL_MESSAGES, s.source != ERASURE)
    columns = [s[name] for name in _Entry._fields]
    while True:
        query = select(s.id, *columns).where(s.id > after, is_lasting).order_by(s.id).limit(_PAGE)
        async with database.read() as tx:
            rows = await tx.execute(query)
        yield [tuple(row)[1:] for row in rows]
        if len(rows) < _PAGE:
            return
        after = rows[-1].id


async def _find_contacts(database: Database, entries: Sequence[_Entry]) -> set[tuple[Any, ...]]:
    c = contacts.c
    async with database.read() as tx:
        rows = await tx.execute(select(c.tenant_id, c.email).where(*_matching(c, entries)))
    return {tuple(row) for row in rows}


def _matching(columns: Any, entries: Sequence[_Entry]) -> tuple[ColumnElement[bool], ...]:
    tenant_ids, emails = {entry.tenant_id for entry in entries}, {entry.email for entry in entries}
    return columns.tenant_id.in_(tenant_ids), columns.email.in_(emails)


def _fact(entry: _Entry) -> StatusFact | None:
    """Return what happened to the contact. An operator's suppression does not change the status."""
    if entry.reason not in list(SuppressionReason):
        return None
    reason = SuppressionReason(entry.reason)
    if reason is SuppressionReason.UNSUBSCRIBED:
        return unsubscribe_fact(entry.tenant_id, entry.email, entry.list_key, source=entry.source, at=entry.created_at)
    if entry.list_key != ALL_MESSAGES:
        return None
    if reason is SuppressionReason.COMPLAINT:
        return complaint_fact(entry.tenant_id, entry.email, source=entry.source, at=entry.created_at)
    return bounce_fact(entry.tenant_id, entry.email, source=entry.source, at=entry.created_at, reason=reason)
