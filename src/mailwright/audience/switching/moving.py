"""Move the contacts of another product: first those who must not get email, then the subscribers.

Every row of the files is counted once, by the result that is stored in the end. After an interruption, run it again:
contacts that are already stored do not change.
"""

import asyncio
import csv
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from mailwright.audience import lists
from mailwright.audience.importing.imports import Imports
from mailwright.audience.importing.plan import ImportOptions
from mailwright.audience.importing.report import HEADER, ReportFile
from mailwright.audience.importing.store import RowOutcome
from mailwright.audience.snooze import MAX_DAYS, snooze
from mailwright.audience.status import StatusFact, apply_facts, bounce_fact, complaint_fact, unsubscribe_fact
from mailwright.audience.switching.exports import ExportedRow, ExportFile, ExportReader
from mailwright.audience.switching.results import SwitchCounts, SwitchReport, Tally, load_stored
from mailwright.audience.switching.vendors import FORMATS, MemberStatus, Vendor, strongest
from mailwright.domain.clock import DAY, Clock, Instant
from mailwright.domain.errors import InvalidInput, NotFound
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.storage.database import Database

_BATCH: Final = 1_000


@dataclass(frozen=True, slots=True)
class SwitchOver:
    """The files of a vendor to move into a tenant. Subscribers join `list_key`, unless the files name lists."""

    tenant_id: int
    vendor: Vendor
    files: Sequence[ExportFile]
    list_key: str | None = None
    is_confirmed: bool = False
    is_filtered: bool = False  # the exports contain no unsubscribed contacts


@dataclass(frozen=True, slots=True)
class _ImportFile:
    """Rows for the importer, with the number of their export file and the lines that they have there."""

    list_key: str | None
    path: Path
    number: int
    lines: list[int]


@dataclass(slots=True)
class _Prepared:
    """The result of reading all files.

    `restricted` are the contacts who must not get email, with all statuses of their rows. `unclear` are those with an
    unknown status. `refusals` are the rows that the importer refused, by file and line, with the reason.
    """

    readers: Sequence[ExportReader]
    restricted: dict[str, set[MemberStatus]] = field(default_factory=dict)
    unclear: set[str] = field(default_factory=set)
    snoozed: dict[str, Instant] = field(default_factory=dict)
    imports: list[_ImportFile] = field(default_factory=list)
    refusals: dict[tuple[int, int], str] = field(default_factory=dict)

    def note(self, row: ExportedRow) -> None:
        if row.status is None:
            self.unclear.add(row.email)
        elif row.status is not MemberStatus.SUBSCRIBED and row.problem is None:
            self.restricted.setdefault(row.email, set()).add(row.status)

    def decide(self, row: ExportedRow) -> ExportedRow:
        """Return the row with the strongest status of its address, or with a problem."""
        if row.problem is not None:
            return row
        if row.email in self.restricted:
            return replace(row, status=strongest(self.restricted[row.email]))
        if row.email in self.unclear:
            return replace(row, problem="Another row of this address has an unknown status.")
        return row

    def rows(self, number: int) -> Iterator[ExportedRow]:
        """Yield the decided rows of a file."""
        for row in map(self.decide, self.readers[number].rows()):
            refusal = self.refusals.get((number, row.line))
            is_refused = refusal is not None and row.status is MemberStatus.SUBSCRIBED
            yield replace(row, problem=row.problem or refusal) if is_refused else row


class SwitchOvers:
    def __init__(self, database: Database, clock: Clock, *, largest: int) -> None:
        self._database = database
        self._clock = clock
        self._largest = largest

    async def preview(self, wanted: SwitchOver) -> SwitchCounts:
        """Return the counts, or raise the error that would stop the move. Nothing is stored."""
        with TemporaryDirectory(prefix="mailwright-") as folder:
            prepared = await asyncio.to_thread(self._prepare, wanted, Path(folder))
            await self._check(wanted, prepared)
            return await self._count(wanted, prepared, SwitchReport(None), is_preview=True)

    async def run(self, wanted: SwitchOver, *, actor: str, report: Path | None = None) -> SwitchCounts:
        """Move everyone, and count the stored results. The report gets a line for each row."""
        with TemporaryDirectory(prefix="mailwright-") as folder:
            prepared = await asyncio.to_thread(self._prepare, wanted, Path(folder))
            missing = await self._check(wanted, prepared)
            with SwitchReport(report) as lines:
                for missing_key in missing:
                    await lists.create(self._database, self._clock, wanted.tenant_id, missing_key, actor=actor)
                await self._restrict(wanted, prepared.restricted)
                for file in prepared.imports:
                    prepared.refusals |= await self._import(wanted, file, actor)
                await self._snooze(wanted, prepared.snoozed, actor)
                return await self._count(wanted, prepared, lines, is_preview=False)

    def _prepare(self, wanted: SwitchOver, folder: Path) -> _Prepared:
        _check_options(wanted)
        readers = [ExportReader(wanted.vendor, file, largest=self._largest) for file in wanted.files]
        prepared = _Prepared(readers)
        for reader in readers:
            for row in reader.rows():
                prepared.note(row)
        for number, reader in enumerate(readers):
            split = _SplitFile(folder, number, _titles(reader.rows()))
            for row in prepared.rows(number):
                if row.problem is None:
                    split.write(_lists(wanted, row), row)
                    if row.status is MemberStatus.SUBSCRIBED and row.snoozed_until is not None:
                        prepared.snoozed[row.email] = row.snoozed_until
            prepared.imports += split.close()
        return prepared

    async def _count(
        self, wanted: SwitchOver, prepared: _Prepared, report: SwitchReport, *, is_preview: bool
    ) -> SwitchCounts:
        tally = Tally(is_preview=is_preview)
        for number, file in enumerate(wanted.files):
            rows = prepared.rows(number)
            while batch := await asyncio.to_thread(list, islice(rows, _BATCH)):
                emails = sorted({row.email for row in batch if row.problem is None})
                async with self._database.read() as tx:
                    stored = await load_stored(tx, wanted.tenant_id, emails)
                for row in batch:
                    list_keys = row.lists if wanted.list_key is None else (wanted.list_key,)
                    report.add(file.path.name, row, tally.judge(row, list_keys, stored.get(row.email)))
        assert tally.counts.adds_up
        return tally.counts

    async def _check(self, wanted: SwitchOver, prepared: _Prepared) -> list[str]:
        """Raise the errors of all imports before anything is stored. Return the lists that do not exist yet."""
        imports = Imports(self._database, self._clock, largest=self._largest)
        has_left_list = any(MemberStatus.LEFT_LIST in statuses for statuses in prepared.restricted.values())
        joined = {file.list_key for file in prepared.imports} | ({wanted.list_key} if has_left_list else set())
        needed = sorted(list_key for list_key in joined if list_key is not None)
        async with self._database.read() as tx:
            known = await lists.existing_keys(tx, wanted.tenant_id, needed)
        for file in prepared.imports:
            options = _options(wanted, file.list_key if file.list_key in known else None)
            await imports.require_consent(wanted.tenant_id, options)
            await imports.preview(wanted.tenant_id, file.path, options)
        return [list_key for list_key in needed if list_key not in known]

    async def _restrict(self, wanted: SwitchOver, restricted: dict[str, set[MemberStatus]]) -> None:
        now = self._clock.now()
        people = iter(sorted(restricted.items()))
        while batch := list(islice(people, _BATCH)):
            facts = [fact for email, statuses in batch for fact in _facts(wanted, email, statuses, now)]
            await self._database.transact(partial(apply_facts, facts=facts, now=now))

    async def _snooze(self, wanted: SwitchOver, snoozed: dict[str, Instant], actor: str) -> None:
        now = self._clock.now()
        for email, until in sorted(snoozed.items()):
            if until > now:
                latest = now + MAX_DAYS * DAY
                with suppress(NotFound):  # The contact was deleted or erased in Mailwright, and is not restored.
                    await snooze(self._database, self._clock, wanted.tenant_id, email, min(until, latest), actor=actor)

    async def _import(self, wanted: SwitchOver, file: _ImportFile, actor: str) -> dict[tuple[int, int], str]:
        """Import a file and return the rows that were refused, by file and line, with the reason."""
        imports = Imports(self._database, self._clock, largest=self._largest)
        name = f"{wanted.vendor}: {wanted.files[file.number].path.name}"
        options = _options(wanted, file.list_key)
        begun = await imports.begin(wanted.tenant_id, file.path, options, file_name=name, actor=actor)
        report = file.path.with_suffix(".report")
        async for _ in imports.run(begun, file.path, ReportFile(report)):
            pass
        return await asyncio.to_thread(_refusals, file, report)


class _SplitFile:
    """Writes the rows of one export into import files, one for each list."""

    def __init__(self, folder: Path, number: int, titles: Sequence[str]) -> None:
        self._folder, self._number, self._titles = folder, number, titles
        self._files: dict[str | None, tuple[_ImportFile, list[Sequence[str]]]] = {}

    def write(self, list_keys: Iterable[str | None], row: ExportedRow) -> None:
        cells = [row.cells.get(title, "") for title in self._titles]
        for list_key in list_keys:
            path = self._folder / f"{self._number + 1}-{len(self._files)}.csv"
            begun = (_ImportFile(list_key, path, self._number, []), [self._titles])
            file, waiting = self._files.setdefault(list_key, begun)
            file.lines.append(row.line)
            waiting.append(cells)
            if len(waiting) >= _BATCH:
                self._flush(list_key)

    def close(self) -> list[_ImportFile]:
        for list_key in self._files:
            self._flush(list_key)
        return [file for file, _ in self._files.values()]

    def _flush(self, list_key: str | None) -> None:
        file, waiting = self._files[list_key]
        with file.path.open("a", encoding="utf-8", newline="") as opened:
            csv.writer(opened).writerows(waiting)
        waiting.clear()


def _refusals(file: _ImportFile, report: Path) -> dict[tuple[int, int], str]:
    """Read the refused rows from the report of an import.

    The report of a continued import lacks the rows that were stored before the interruption, so the lines are matched
    from the end.
    """
    with report.open(encoding="utf-8", newline="") as opened:
        lines = [line for line in csv.reader(text.replace("\0", "") for text in opened) if tuple(line) != HEADER]
    pairs = zip(reversed(file.lines), reversed(lines), strict=False)
    return {(file.number, line): why for line, (_, _, outcome, why) in pairs if outcome == RowOutcome.REFUSED}


def _check_options(wanted: SwitchOver) -> None:
    format_ = FORMATS[wanted.vendor]
    if format_.lists_column is not None and wanted.list_key is not None:
        raise InvalidInput("The lists come from the files. Leave the option out.", field="--list")
    if format_.lists_column is None and wanted.list_key is None:
        raise InvalidInput("Choose the list that the subscribers join.", field="--list")
    has_unsubscribed = any(file.status is MemberStatus.UNSUBSCRIBED for file in wanted.files)
    if format_.hides_unsubscribed and not (has_unsubscribed or wanted.is_filtered):
        raise InvalidInput(
            f"{wanted.vendor.label} exports contacts who unsubscribed as subscribers. Export them separately and give "
            "that file the status unsubscribed (--unsubscribed FILE), or export subscribers only (--filtered).",
            field="file",
        )


def _titles(rows: Iterator[ExportedRow]) -> list[str]:
    return list(dict.fromkeys(title for row in rows for title in row.cells))


def _lists(wanted: SwitchOver, row: ExportedRow) -> tuple[str | None, ...]:
    """Return the lists that a row joins. Contacts who must not get email are stored without a list."""
    if row.status is not MemberStatus.SUBSCRIBED:
        return (None,)
    return (wanted.list_key,) if wanted.list_key is not None else row.lists or (None,)


def _options(wanted: SwitchOver, list_key: str | None) -> ImportOptions:
    return ImportOptions(list_key, is_confirmed=wanted.is_confirmed)


def _facts(wanted: SwitchOver, email: str, statuses: Collection[MemberStatus], now: Instant) -> Iterator[StatusFact]:
    """Yield all facts, so that lifting one of them, for example a bounce, leaves the others."""
    source = wanted.vendor.value
    if MemberStatus.BOUNCED in statuses:
        yield bounce_fact(wanted.tenant_id, email, source=source, at=now)
    if MemberStatus.COMPLAINED in statuses:
        yield complaint_fact(wanted.tenant_id, email, source=source, at=now)
    if MemberStatus.LEFT_LIST in statuses and wanted.list_key is not None:
        yield unsubscribe_fact(wanted.tenant_id, email, wanted.list_key, source=source, at=now)
    if MemberStatus.UNSUBSCRIBED in statuses or MemberStatus.COMPLAINED in statuses:
        yield unsubscribe_fact(wanted.tenant_id, email, lists.GENERAL, source=source, at=now)
