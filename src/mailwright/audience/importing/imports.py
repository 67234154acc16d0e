"""Imports: a file becomes contacts portion by portion; one that was cut off goes on where it ended.

A portion is one transaction: the people, the counts, and how many records of the file are done. Whatever ends the
process between two portions, the next one begins with the first record that is not stored yet.
"""

import asyncio
import gc
from collections import Counter
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

import orjson
from sqlalchemy import ColumnElement, Row, insert, select, update

from mailwright.audience import lists
from mailwright.audience.contact_fields import InvalidContact
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
from mailwright.audience.importing.report import ImportReport, ReportLine, format_report_lines
from mailwright.audience.importing.rows import ContactRow, RowReader
from mailwright.audience.importing.store import (
    REPEATED,
    ContactValues,
    ImportTarget,
    RowOutcome,
    RowResult,
    contact_values,
    store_batch,
)
from mailwright.domain.clock import Clock, Instant
from mailwright.domain.errors import InvalidInput, NotFound, NotPossibleNow
from mailwright.domain.ids import uuid7
from mailwright.outbox import audit_log
from mailwright.storage.database import Database
from mailwright.storage.hot import Runner
from mailwright.storage.statements import statement
from mailwright.storage.tables import imports
from mailwright.storage.tables import lists as lists_table

LOCK_IMPORT = statement("mailwright.audience", "lock_import")
RECORD_PROGRESS = statement("mailwright.audience", "record_progress")

# Large enough that the commit is not what costs, small enough that other writers do not wait for long.
BATCH_SIZE: Final = 10_000


class ImportRunsElsewhere(NotPossibleNow):
    """Another process is at work on this import."""

    code = "IMPORT_ELSEWHERE"


@dataclass(frozen=True, slots=True)
class Import:
    """How far it has come."""

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
    created_at: Instant
    updated_at: Instant
    finished_at: Instant | None


@dataclass(frozen=True, slots=True)
class _ImportBatch:
    """All that can be done before the database is asked: then nobody else who writes waits for it."""

    people: dict[str, ContactRow]
    stored: list[ContactValues]
    lines: list[ReportLine]  # as they are if everyone is new
    told: bytes  # of them in the report
    records: int
    read_bytes: int


class Imports:
    def __init__(self, database: Database, clock: Clock, *, largest: int = MAX_FILE_BYTES) -> None:
        self._database = database
        self._clock = clock
        self._largest = largest

    async def preview(self, tenant_id: int, path: Path, purpose: ImportOptions) -> ImportPreview:
        """What an import would do with the first rows; nothing is stored."""
        await self._check(tenant_id, purpose)
        plan = await asyncio.to_thread(make_plan, path, purpose, largest=self._largest)
        return await asyncio.to_thread(make_preview, path, plan)

    async def begin(
        self,
        tenant_id: int,
        path: Path,
        purpose: ImportOptions,
        *,
        file_name: str | None = None,
        continues: bool = True,
        actor: str | None = None,
    ) -> Import:
        """The same file for the same purpose goes on where it was cut off.

        Whoever acts under a name of their own, as `actor`, is noted in the journal.
        """
        await self._check(tenant_id, purpose)
        plan = await asyncio.to_thread(make_plan, path, purpose, largest=self._largest)
        print_, size = await asyncio.to_thread(fingerprint, path)
        stored = orjson.dumps(plan.as_json()).decode()
        if continues and (found := await self._unfinished(tenant_id, print_, stored)):
            return found
        now = self._clock.now()
        values = {
            "import_id": uuid7(now),
            "tenant_id": tenant_id,
            "file_name": (file_name or path.name)[:255],
            "fingerprint": print_,
            "size_bytes": size,
            "plan": stored,
            **dict.fromkeys(("records", "read_bytes", "report_bytes", *RowOutcome), 0),
            "created_at": now,
            "updated_at": now,
        }
        async with self._database.write() as tx:
            await tx.execute(insert(imports).values(**values))
            if actor is not None:
                subject = str(values["import_id"])
                detail = {"file": values["file_name"]}
                await audit_log.record(
                    tx, now, actor=actor, action="import.begin", subject=subject, tenant_id=tenant_id, detail=detail
                )
        return await self.find(tenant_id, str(values["import_id"]))

    async def run(self, begun: Import, path: Path, report: Path | None = None) -> AsyncGenerator[Import, None]:
        """To the end, telling after each portion how far it has come. Stopping in between loses nothing."""
        if begun.finished_at is not None:
            return
        with path.open("rb") as file, RecordReader(file, begun.plan.file_format) as records, _few_looks_for_cycles():
            portions = _portions(records, begun)
            done, portion = begun, await asyncio.to_thread(next, portions, None)
            while portion is not None:
                # While the database stores one portion, the next is read.
                storing = asyncio.ensure_future(self._store(done, portion, ImportReport(report)))
                try:
                    following = await asyncio.to_thread(next, portions, None)
                finally:
                    done = await storing
                portion = following
                yield done
        yield await self._finish(done, ImportReport(report))

    async def find(self, tenant_id: int, import_id: str) -> Import:
        rows = await self._select(imports.c.tenant_id == tenant_id, imports.c.import_id == import_id)
        if not rows:
            raise NotFound
        return rows[0]

    async def latest(self, tenant_id: int, *, limit: int) -> list[Import]:
        return await self._select(imports.c.tenant_id == tenant_id, limit=limit)

    async def unfinished(self) -> list[Import]:
        """Of all tenants, for whoever takes them up again."""
        return await self._select(imports.c.finished_at.is_(None), limit=1_000)

    async def _unfinished(self, tenant_id: int, print_: str, plan: str) -> Import | None:
        same = (imports.c.tenant_id == tenant_id, imports.c.fingerprint == print_, imports.c.plan == plan)
        found = await self._select(*same, imports.c.finished_at.is_(None), limit=1)
        return found[0] if found else None

    async def _select(self, *conditions: ColumnElement[bool], limit: int = 1) -> list[Import]:
        columns = [imports.c[name] for name in Import.__slots__]
        async with self._database.read() as tx:
            rows = await tx.execute(select(*columns).where(*conditions).order_by(imports.c.id.desc()).limit(limit))
        return [_import(row) for row in rows]

    async def _check(self, tenant_id: int, purpose: ImportOptions) -> None:
        if purpose.list_key is None:
            return
        async with self._database.read() as tx:
            await lists.require(tx, tenant_id, purpose.list_key)
            matching = (lists_table.c.tenant_id == tenant_id, lists_table.c.list_key == purpose.list_key)
            rows = await tx.execute(select(lists_table.c.requires_confirmation).where(*matching))
        if rows and rows[0].requires_confirmation and not purpose.is_confirmed:
            raise InvalidInput(
                f"the readers of {purpose.list_key} confirm before they get mail; import them as confirmed if they "
                "have done so elsewhere",
                field="confirmed",
            )

    async def _store(self, done: Import, portion: _ImportBatch, report: ImportReport) -> Import:
        now = self._clock.now()
        return await self._database.transact(lambda tx: _store(tx, done, portion, report, now))

    async def _finish(self, done: Import, report: ImportReport) -> Import:
        now = self._clock.now()
        length = report.write(0, b"") if done.records == 0 else done.report_bytes
        ended: dict[str, Any] = {"finished_at": now, "updated_at": now, "read_bytes": done.size_bytes}
        ended["report_bytes"] = length
        async with self._database.write() as tx:
            await tx.execute(update(imports).where(imports.c.id == done.id).values(**ended))
        return replace(done, **ended)


@contextmanager
def _few_looks_for_cycles() -> Iterator[None]:
    """Rows make many small objects and no cycles: looking for those as often as usual costs a third of the time."""
    often, *rest = gc.get_threshold()
    gc.set_threshold(max(often, 200_000), *rest)
    try:
        yield
    finally:
        gc.set_threshold(often, *rest)


def _portions(records: RecordReader, begun: Import) -> Iterator[_ImportBatch]:
    """Those that are done are read over: that is fast, and needs no way back into the middle of a file."""
    rows = islice(data_records(records, begun.plan), begun.records, None)
    reader, number = RowReader(begun.plan.columns, begun.plan.tags), begun.records
    while taken := list(islice(rows, BATCH_SIZE)):
        number += len(taken)
        yield _portion(taken, reader, number, records.read_bytes)


def _portion(taken: list[Record], reader: RowReader, records: int, read_bytes: int) -> _ImportBatch:
    people: dict[str, ContactRow] = {}
    lines: list[ReportLine] = []
    for line, cells, problem in taken:
        if problem is not None:
            lines.append((line, "", RowOutcome.REFUSED, problem))
            continue
        try:
            person = reader.person(cells)
        except InvalidContact as error:
            lines.append((line, reader.address(cells), RowOutcome.REFUSED, str(error)))
            continue
        email = person.email
        if email in people:
            is_new = people[email].take_over(person)
            lines.append((line, email, RowOutcome.CHANGED if is_new else RowOutcome.UNCHANGED, REPEATED))
        else:
            people[email] = person
            lines.append((line, email, RowOutcome.ADDED, ""))
    return _ImportBatch(people, contact_values(people.values()), lines, format_report_lines(lines), records, read_bytes)


async def _store(tx: Runner, done: Import, portion: _ImportBatch, report: ImportReport, now: Instant) -> Import:
    if [row.records for row in await tx.run(LOCK_IMPORT, id=done.id)] != [done.records]:
        raise ImportRunsElsewhere
    aim = ImportTarget(done.tenant_id, done.plan.list_key, f"import:{done.import_id}", now)
    results = await store_batch(tx, portion.people, portion.stored, aim)
    lines = [_told(line, results) for line in portion.lines] if results else portion.lines
    told = format_report_lines(lines) if results else portion.told
    counts = Counter(map(itemgetter(2), lines))
    moved = replace(
        done,
        records=portion.records,
        read_bytes=portion.read_bytes,
        report_bytes=report.write(done.report_bytes, told),
        updated_at=now,
        **{outcome.value: getattr(done, outcome.value) + counts[outcome] for outcome in RowOutcome},
    )
    names = ("records", "read_bytes", "report_bytes", *(outcome.value for outcome in RowOutcome))
    values = {name: getattr(moved, name) for name in names}
    await tx.count(RECORD_PROGRESS, **values, id=done.id, now=now)
    return moved


def _told(line: ReportLine, results: dict[str, RowResult]) -> ReportLine:
    """What the database knew of someone is told on their first line; a refusal, on all of them."""
    number, email, read, _ = line
    result = results.get(email)
    if result is None or read is RowOutcome.REFUSED:
        return line
    outcome, why = result
    return (number, email, outcome, why) if read is RowOutcome.ADDED or outcome is RowOutcome.REFUSED else line


def _import(row: Row[Any]) -> Import:
    return Import(**{**row._mapping, "plan": ImportPlan.of_json(orjson.loads(row.plan))})
