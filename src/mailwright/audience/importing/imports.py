"""Import a file into contacts in batches. An interrupted import continues where it stopped.

Each batch is one transaction that stores the contacts, the counts and the number of processed records. If the process
stops, the next one continues with the first record that is not stored yet.
"""

import asyncio
import gc
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

import orjson
from sqlalchemy import ColumnElement, Row, insert, select, update

from mailwright.audience import lists
from mailwright.audience.contact_fields import InvalidContact
from mailwright.audience.double_opt_in import DoubleOptIn, DoubleOptInRequest
from mailwright.audience.importing.plan import (
    MAX_FILE_BYTES,
    ImportOptions,
    ImportPlan,
    ImportPreview,
    data_records,
    fingerprint,
    make_plan,
    make_preview,
)
from mailwright.audience.importing.records import Record, RecordReader
from mailwright.audience.importing.repeats import MAX_COMPARED
from mailwright.audience.importing.report import ImportReport, ReportLine, append_lines, format_report_lines
from mailwright.audience.importing.rows import ContactRow, RowReader, despite_file
from mailwright.audience.importing.store import (
    ANSWER_COUNTS,
    KEPT,
    REPEATED,
    ContactValues,
    ImportTarget,
    RowOutcome,
    RowResult,
    contact_values,
    find_blocked,
    store_batch,
)
from mailwright.audience.objections import IMPORT_SOURCE
from mailwright.domain.clock import Clock, Instant
from mailwright.domain.errors import InvalidInput, NotFound, NotPossibleNow
from mailwright.domain.ids import uuid7
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.outbox import audit_log
from mailwright.outbox.pending_erasures import ErasurePending
from mailwright.storage.database import Database, Transaction
from mailwright.storage.hot import Runner
from mailwright.storage.statements import statement
from mailwright.storage.tables import contacts, imports, subscriptions
from mailwright.storage.tables import lists as lists_table

LOCK_IMPORT = statement("mailwright.audience", "lock_import")
RECORD_PROGRESS = statement("mailwright.audience", "record_progress")

# Large enough that the commit takes little of the time, small enough that other writers do not wait long.
BATCH_SIZE: Final = 10_000
# Confirmation emails that are written in one transaction.
_ASKED_AT_ONCE: Final = 50
# The outcomes whose counts are stored. All other rows repeat an address.
_COUNTED: Final = (RowOutcome.ADDED, RowOutcome.CHANGED, RowOutcome.UNCHANGED, RowOutcome.REFUSED)


class ImportRunsElsewhere(NotPossibleNow):
    """Another process is running this import."""

    code = "IMPORT_ELSEWHERE"


@dataclass(frozen=True, slots=True)
class Import:
    """An import and its progress."""

    id: int
    import_id: str
    tenant_id: int
    file_name: str
    fingerprint: str
    size_bytes: int
    plan: ImportPlan
    records: int
    read_bytes: int
    report_bytes: int
    added: int
    changed: int
    unchanged: int
    refused: int
    subscribed: int
    asked: int
    said_no: int
    unanswered: int
    unreadable: int
    created_at: Instant
    updated_at: Instant
    finished_at: Instant | None

    @property
    def source(self) -> str:
        """Return the source that subscriptions and unsubscribes by this import record."""
        return f"{IMPORT_SOURCE}{self.import_id}"

    @property
    def repeated(self) -> int:
        """Return the number of rows whose address is on an earlier row, so that their contact is already counted."""
        return self.records - self.added - self.changed - self.unchanged - self.refused


_COLUMNS: Final = [imports.c[name] for name in Import.__slots__]


@dataclass(frozen=True, slots=True)
class _ImportBatch:
    """A batch, prepared outside of the transaction so that other writers wait less."""

    contacts: dict[str, ContactRow]
    stored: list[ContactValues]
    lines: list[ReportLine]  # written as if every contact were new
    report: bytes  # the lines as CSV
    records: int
    read_bytes: int


class Imports:
    def __init__(
        self,
        database: Database,
        clock: Clock,
        *,
        largest: int = MAX_FILE_BYTES,
        double_opt_in: Callable[[], Awaitable[DoubleOptIn]] | None = None,
    ) -> None:
        """Create the service. `double_opt_in` writes the confirmation emails of imports that ask."""
        self._database = database
        self._clock = clock
        self._largest = largest
        self._double_opt_in = double_opt_in

    async def preview(self, tenant_id: int, path: Path, options: ImportOptions) -> ImportPreview:
        """Return the first rows as an import would store them. Nothing is stored."""
        needs_consent = await self._check_list(tenant_id, options)
        plan = await asyncio.to_thread(make_plan, path, options, largest=self._largest)
        if needs_consent is not None:
            plan = replace(plan, notes=(*plan.notes, str(needs_consent)))
        seen = await asyncio.to_thread(make_preview, path, plan)
        return replace(seen, blocked=await self._find_blocked(tenant_id, seen))

    async def _find_blocked(self, tenant_id: int, seen: ImportPreview) -> dict[str, str]:
        found: dict[str, str] = {}
        emails = iter(seen.wants if seen.plan.list_key is not None else ())
        while batch := [*islice(emails, BATCH_SIZE)]:
            async with self._database.read() as tx:
                found |= await find_blocked(
                    tx, tenant_id, seen.plan.list_key, batch, has_answers=seen.plan.asks_subscription
                )
        return found

    async def begin(
        self,
        tenant_id: int,
        path: Path,
        options: ImportOptions,
        *,
        file_name: str | None = None,
        continues: bool = True,
        actor: str | None = None,
        import_id: str | None = None,
        keep: Callable[[Transaction], Awaitable[None]] | None = None,
    ) -> Import:
        """Start an import, or continue an unfinished import of the same file with the same options.

        An `actor` is recorded in the audit log. `keep` stores the file in the transaction that stores the import.
        """
        await self.require_consent(tenant_id, options)
        plan = await asyncio.to_thread(make_plan, path, options, largest=self._largest)
        print_, size = await asyncio.to_thread(fingerprint, path)
        stored = orjson.dumps(plan.as_json()).decode()
        if continues and (unfinished := await self._unfinished(tenant_id, print_, stored)):
            return unfinished
        now = self._clock.now()
        values = {
            "import_id": import_id or uuid7(now),
            "tenant_id": tenant_id,
            "file_name": (file_name or path.name)[:255],
            "fingerprint": print_,
            "size_bytes": size,
            "plan": stored,
            **dict.fromkeys(("records", "read_bytes", "report_bytes", *_COUNTED, *ANSWER_COUNTS), 0),
            "created_at": now,
            "updated_at": now,
        }
        async with self._database.write() as tx:
            rows = await tx.execute(insert(imports).values(**values).returning(*_COLUMNS))
            if actor is not None:
                subject = str(values["import_id"])
                detail = {"file": values["file_name"]}
                if plan.legal_basis is not None:
                    detail["legalBasis"] = str(plan.legal_basis.basis)
                await audit_log.record(
                    tx, now, actor=actor, action="import.begin", subject=subject, tenant_id=tenant_id, detail=detail
                )
            if keep is not None:
                await keep(tx)
        return _import(rows[0])

    async def run(
        self, started: Import, path: Path, report: ImportReport | None = None
    ) -> AsyncGenerator[Import, None]:
        """Run to the end and yield the progress after each batch. An interrupted run can be continued later."""
        if started.finished_at is not None:
            return
        with (
            path.open("rb") as file,
            RecordReader(file, started.plan.file_format) as records,
            _less_garbage_collection(),
        ):
            batches = _batches(records, started)
            current, batch = started, await asyncio.to_thread(next, batches, None)
            while batch is not None:
                # Read the next batch while the database stores this one.
                storing = asyncio.ensure_future(self._store(current, batch, report))
                try:
                    following = await asyncio.to_thread(next, batches, None)
                finally:
                    current = await storing
                batch = following
                yield current
        if current.plan.asks:
            async for progress in self._ask(current):
                yield progress
        yield await self._finish(current, report)

    async def find(self, tenant_id: int, import_id: str) -> Import:
        rows = await self._select(imports.c.tenant_id == tenant_id, imports.c.import_id == import_id)
        if not rows:
            raise NotFound
        return rows[0]

    async def latest(self, tenant_id: int, *, limit: int) -> list[Import]:
        return await self._select(imports.c.tenant_id == tenant_id, limit=limit)

    async def unfinished(self) -> list[Import]:
        """Return the unfinished imports of all tenants."""
        return await self._select(imports.c.finished_at.is_(None), limit=1_000)

    async def _unfinished(self, tenant_id: int, print_: str, plan: str) -> Import | None:
        same = (imports.c.tenant_id == tenant_id, imports.c.fingerprint == print_, imports.c.plan == plan)
        rows = await self._select(*same, imports.c.finished_at.is_(None), limit=1)
        return rows[0] if rows else None

    async def _select(self, *conditions: ColumnElement[bool], limit: int = 1) -> list[Import]:
        async with self._database.read() as tx:
            rows = await tx.execute(select(*_COLUMNS).where(*conditions).order_by(imports.c.id.desc()).limit(limit))
        return [_import(row) for row in rows]

    async def require_consent(self, tenant_id: int, options: ImportOptions) -> None:
        """Raise an error if the list cannot be used, or if the import still has to state a consent."""
        if (needs_consent := await self._check_list(tenant_id, options)) is not None:
            raise needs_consent

    async def _check_list(self, tenant_id: int, options: ImportOptions) -> InvalidInput | None:
        """Raise if the list cannot be used. Return an error if the import still has to state a consent."""
        if options.list_key is None:
            if options.asks:
                raise InvalidInput("Choose the list for which the contacts are asked.", field="list")
            return None
        async with self._database.read() as tx:
            await lists.require(tx, tenant_id, options.list_key)
            matching = (lists_table.c.tenant_id == tenant_id, lists_table.c.list_key == options.list_key)
            rows = await tx.execute(select(lists_table.c.requires_confirmation).where(*matching))
        requires_confirmation = bool(rows and rows[0].requires_confirmation)
        if options.asks and not requires_confirmation:
            raise InvalidInput(
                "The list {list_key} does not use double opt-in, so nobody can be asked. Change the list first.",
                field="ask",
                list_key=options.list_key,
            )
        if not requires_confirmation or options.is_confirmed or options.asks:
            return None
        return InvalidInput(
            "The list {list_key} requires confirmation. To import, state that these contacts have already confirmed "
            "elsewhere (`confirmed`), or ask them by email (`ask`).",
            field="confirmed",
            list_key=options.list_key,
        )

    async def _store(self, current: Import, batch: _ImportBatch, report: ImportReport | None) -> Import:
        now = self._clock.now()
        return await self._database.transact(lambda tx: _store(tx, current, batch, report, now))

    async def _ask(self, current: Import) -> AsyncIterator[Import]:
        """Write the confirmation emails, unless the list is gone, and yield after each transaction.

        After an interruption, the next run continues with the contacts who were not asked.
        """
        assert self._double_opt_in is not None
        list_key = current.plan.list_key
        assert list_key is not None
        double_opt_in = await self._double_opt_in()
        s, last = subscriptions.c, 0
        waiting = (
            select(s.id, s.source, contacts.c.email)
            .join_from(subscriptions, contacts, contacts.c.id == s.contact_key)
            .where(s.tenant_id == current.tenant_id, s.list_key == list_key)
            .where(s.is_pending.is_(True), s.subscribed_at.is_(None), s.source.startswith(current.source))
            .order_by(s.id)
            .limit(_ASKED_AT_ONCE)
        )
        while True:
            current = replace(current, updated_at=self._clock.now())
            async with self._database.write() as tx:
                if not await lists.existing_keys(tx, current.tenant_id, [list_key]):
                    return
                # Other processes continue an import only if it stands still.
                await tx.execute(
                    update(imports).where(imports.c.id == current.id).values(updated_at=current.updated_at)
                )
                rows = await tx.execute(waiting.where(s.id > last))
                for row in rows:
                    request = DoubleOptInRequest(current.tenant_id, row.email, list_key)
                    with suppress(ErasurePending):
                        await double_opt_in.request_confirmation(tx, request, source=row.source)
                    last = row.id
            if not rows:
                return
            yield current

    async def _finish(self, current: Import, report: ImportReport | None) -> Import:
        now = self._clock.now()
        ended: dict[str, Any] = {"finished_at": now, "updated_at": now, "read_bytes": current.size_bytes}
        async with self._database.write() as tx:
            if current.records == 0:
                ended["report_bytes"] = await append_lines(report, tx, 0, b"", now)
            await tx.execute(update(imports).where(imports.c.id == current.id).values(**ended))
        return replace(current, **ended)


@contextmanager
def _less_garbage_collection() -> Iterator[None]:
    """Run the garbage collector less often inside the block.

    Rows create many small objects but no reference cycles, and the collector would take a third of the import's time.
    """
    often, *rest = gc.get_threshold()
    gc.set_threshold(max(often, 200_000), *rest)
    try:
        yield
    finally:
        gc.set_threshold(often, *rest)


def _batches(records: RecordReader, started: Import) -> Iterator[_ImportBatch]:
    """Yield the batches that are not stored yet.

    Skip the processed records by reading them again, which needs no stored file position and finds the addresses that
    later rows repeat.
    """
    rows, seen, number = data_records(records, started.plan), set[int](), 0
    reader = RowReader(started.plan.columns, started.plan.tags)
    while records_read := list(islice(rows, min(BATCH_SIZE, max(0, started.records - number)) or BATCH_SIZE)):
        is_stored = number < started.records
        number += len(records_read)
        batch = _make_batch(records_read, reader, seen, number, records.read_bytes)
        if not is_stored:
            yield batch


def _make_batch(
    records_read: list[Record], reader: RowReader, seen: set[int], records: int, read_bytes: int
) -> _ImportBatch:
    """Prepare a batch. `seen` has the hashes of earlier addresses, and gets those of this batch."""
    contacts: dict[str, ContactRow] = {}
    lines: list[ReportLine] = []
    for line, cells, problem in records_read:
        if problem is not None:
            lines.append((line, "", RowOutcome.REFUSED, problem))
            continue
        try:
            contact = reader.read(cells)
            if contact.proof:
                contact.proof = f"line {line}, {contact.proof}"
        except InvalidContact as error:
            lines.append((line, reader.address(cells), RowOutcome.REFUSED, str(error)))
            continue
        email = contact.email
        if email in contacts:
            contacts[email].merge(contact)
            lines.append((line, email, RowOutcome.REPEATED, _join(REPEATED, contact.remark)))
            continue
        contacts[email] = contact
        key = hash(email)
        if key in seen:
            lines.append((line, email, RowOutcome.REPEATED, _join(REPEATED, contact.remark)))
            continue
        if len(seen) < MAX_COMPARED:
            seen.add(key)
        lines.append((line, email, RowOutcome.ADDED, contact.remark))
    return _ImportBatch(
        contacts, contact_values(contacts.values()), lines, format_report_lines(lines), records, read_bytes
    )


async def _store(tx: Runner, current: Import, batch: _ImportBatch, report: ImportReport | None, now: Instant) -> Import:
    if [row.records for row in await tx.run(LOCK_IMPORT, id=current.id)] != [current.records]:
        raise ImportRunsElsewhere
    plan = current.plan
    target = ImportTarget(
        current.tenant_id,
        plan.list_key,
        current.source,
        now,
        plan.legal_basis,
        plan.starts_sequences,
        plan.keeps_subscriptions,
        current.file_name,
        plan.asks,
        plan.is_confirmed,
    )
    result = await store_batch(tx, batch.contacts, batch.stored, target)
    results = result.rows
    lines = [_final_line(line, results) for line in batch.lines] if results else batch.lines
    content = format_report_lines(lines) if results else batch.report
    counts = Counter(map(itemgetter(2), lines))
    progress = replace(
        current,
        records=batch.records,
        read_bytes=batch.read_bytes,
        report_bytes=await append_lines(report, tx, current.report_bytes, content, now),
        updated_at=now,
        **{outcome.value: getattr(current, outcome.value) + counts[outcome] for outcome in _COUNTED},
        **{name: getattr(current, name) + result.counts[name] for name in ANSWER_COUNTS},
    )
    names = ("records", "read_bytes", "report_bytes", *(outcome.value for outcome in _COUNTED), *ANSWER_COUNTS)
    values = {name: getattr(progress, name) for name in names}
    await tx.count(RECORD_PROGRESS, **values, id=current.id, now=now)
    return progress


def _final_line(line: ReportLine, results: dict[str, RowResult]) -> ReportLine:
    """Return the line with its stored result. Repeated lines of an address show the result only if it is a refusal."""
    number, email, read, remark = line
    result = results.get(email)
    if result is None or read is RowOutcome.REFUSED:
        return line
    outcome, why = result
    if outcome is RowOutcome.REFUSED:
        return number, email, outcome, why
    if read is not RowOutcome.ADDED:
        return line
    return number, email, outcome, _join(why, despite_file(remark) if why == KEPT else remark)


def _join(*remarks: str) -> str:
    return "; ".join(filter(None, remarks))


def _import(row: Row[Any]) -> Import:
    return Import(**{**row._mapping, "plan": ImportPlan.of_json(orjson.loads(row.plan))})
