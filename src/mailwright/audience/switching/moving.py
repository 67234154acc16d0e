"""Move the contacts of another product: first those who must not get email, then the subscribers.

Every row of the files is counted once, as subscribed, unsubscribed, bounced or refused. Run it again after an
interruption: it changes nothing that is already right.
"""

import asyncio
import csv
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from mailwright.audience import lists
from mailwright.audience.csv_cells import escape_formula
from mailwright.audience.importing.imports import Imports
from mailwright.audience.importing.plan import ImportOptions
from mailwright.audience.snooze import MAX_DAYS, snooze
from mailwright.audience.status import StatusFact, apply_facts, bounce_fact, complaint_fact, unsubscribe_fact
from mailwright.audience.switching.exports import ExportedRow, ExportFile, ExportReader
from mailwright.audience.switching.vendors import FORMATS, MemberStatus, Vendor
from mailwright.domain.clock import DAY, Clock, Instant
from mailwright.domain.errors import InvalidInput
from mailwright.storage.database import Database

REFUSED: Final = "refused"
REPORT_TITLES: Final = ("file", "line", "email", "result", "remark")
_BATCH: Final = 1_000
_ORDER: Final = list(MemberStatus)


@dataclass(frozen=True, slots=True)
class SwitchOver:
    """What to move: the files of a vendor, for a tenant. Subscribers join `list_key`, unless the files name lists."""

    tenant_id: int
    vendor: Vendor
    files: Sequence[ExportFile]
    list_key: str | None = None
    is_confirmed: bool = False
    is_filtered: bool = False  # the exports contain nobody who left a list


@dataclass(slots=True)
class SwitchCounts:
    """The number of rows by result. They add up to `rows`. `complained` is a part of `unsubscribed`."""

    rows: int = 0
    subscribed: int = 0
    unsubscribed: int = 0
    bounced: int = 0
    refused: int = 0
    complained: int = 0

    @property
    def adds_up(self) -> bool:
        return self.rows == self.subscribed + self.unsubscribed + self.bounced + self.refused


@dataclass(slots=True)
class _Prepared:
    """The result of reading all files.

    `restricted` are the people who must not get email, with all statuses of their rows. `unclear` are those with an
    unknown status. `imports` are files to import by list.
    """

    counts: SwitchCounts = field(default_factory=SwitchCounts)
    restricted: dict[str, set[MemberStatus]] = field(default_factory=dict)
    unclear: set[str] = field(default_factory=set)
    snoozed: dict[str, Instant] = field(default_factory=dict)
    imports: list[tuple[str | None, Path]] = field(default_factory=list)

    def note(self, row: ExportedRow) -> None:
        if row.status is None:
            self.unclear.add(row.email)
        elif row.status is not MemberStatus.SUBSCRIBED and row.problem is None:
            self.restricted.setdefault(row.email, set()).add(row.status)

    def judge(self, row: ExportedRow) -> ExportedRow:
        """Count a row by the strongest status of its address, and return the row with this status."""
        counts = self.counts
        counts.rows += 1
        is_restricted = row.email in self.restricted and row.problem is None
        if row.problem is None and row.email in self.unclear and not is_restricted:
            row = replace(row, problem="Another row of this address has an unknown status.")
        if row.problem is not None:
            counts.refused += 1
            return row
        status = max(self.restricted.get(row.email, {MemberStatus.SUBSCRIBED}), key=_ORDER.index)
        if status is MemberStatus.SUBSCRIBED:
            counts.subscribed += 1
            if row.snoozed_until is not None:
                self.snoozed[row.email] = row.snoozed_until
        elif status is MemberStatus.BOUNCED:
            counts.bounced += 1
        else:
            counts.unsubscribed += 1
            counts.complained += status is MemberStatus.COMPLAINED
        return replace(row, status=status)


class SwitchOvers:
    def __init__(self, database: Database, clock: Clock, *, largest: int) -> None:
        self._database = database
        self._clock = clock
        self._largest = largest

    async def preview(self, wanted: SwitchOver) -> SwitchCounts:
        """Return the counts. Nothing is stored."""
        with TemporaryDirectory(prefix="mailwright-") as folder:
            prepared = await asyncio.to_thread(self._prepare, wanted, Path(folder), None)
        return prepared.counts

    async def run(self, wanted: SwitchOver, *, actor: str, report: Path | None = None) -> SwitchCounts:
        """Move everyone. The report gets a line for each row."""
        with TemporaryDirectory(prefix="mailwright-") as folder:
            prepared = await asyncio.to_thread(self._prepare, wanted, Path(folder), report)
            missing = await self._check(wanted, prepared)
            for missing_key in missing:
                await lists.create(self._database, self._clock, wanted.tenant_id, missing_key, actor=actor)
            await self._restrict(wanted, prepared.restricted)
            for list_key, file in prepared.imports:
                await self._import(wanted, list_key, file, actor)
            await self._snooze(wanted, prepared.snoozed, actor)
        return prepared.counts

    def _prepare(self, wanted: SwitchOver, folder: Path, report: Path | None) -> _Prepared:
        _check_options(wanted)
        readers = [ExportReader(wanted.vendor, file, largest=self._largest) for file in wanted.files]
        prepared = _Prepared()
        for reader in readers:
            for row in reader.rows():
                prepared.note(row)
        with _Report(report) as lines:
            for number, (file, reader) in enumerate(zip(wanted.files, readers, strict=True), start=1):
                split = _SplitFile(folder, number, _titles(reader.rows()))
                for row in map(prepared.judge, reader.rows()):
                    lines.add(file.path.name, row)
                    if row.problem is None:
                        split.write(_lists(wanted, row), row)
                prepared.imports += split.close()
        assert prepared.counts.adds_up
        return prepared

    async def _check(self, wanted: SwitchOver, prepared: _Prepared) -> list[str]:
        """Raise the errors of all imports before anything is stored. Return the lists that do not exist yet."""
        imports = Imports(self._database, self._clock, largest=self._largest)
        needed = sorted({list_key for list_key, _ in prepared.imports if list_key is not None})
        async with self._database.read() as tx:
            known = await lists.existing_keys(tx, wanted.tenant_id, needed)
        for list_key, file in prepared.imports:
            options = _options(wanted, list_key if list_key in known else None)
            await imports.preview(wanted.tenant_id, file, options)
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
                await snooze(self._database, self._clock, wanted.tenant_id, email, min(until, latest), actor=actor)

    async def _import(self, wanted: SwitchOver, list_key: str | None, file: Path, actor: str) -> None:
        imports = Imports(self._database, self._clock, largest=self._largest)
        begun = await imports.begin(
            wanted.tenant_id, file, _options(wanted, list_key), file_name=f"{wanted.vendor}: {file.name}", actor=actor
        )
        async for _ in imports.run(begun, file):
            pass


class _SplitFile:
    """Writes the rows of one export into import files, one for each list."""

    def __init__(self, folder: Path, number: int, titles: Sequence[str]) -> None:
        self._folder, self._number, self._titles = folder, number, titles
        self._files: dict[str | None, tuple[Path, list[Sequence[str]]]] = {}

    def write(self, list_keys: Iterable[str | None], row: ExportedRow) -> None:
        cells = [row.cells.get(title, "") for title in self._titles]
        for list_key in list_keys:
            path = self._folder / f"{self._number}-{len(self._files)}.csv"
            _, waiting = self._files.setdefault(list_key, (path, [self._titles]))
            waiting.append(cells)
            if len(waiting) >= _BATCH:
                self._flush(list_key)

    def close(self) -> list[tuple[str | None, Path]]:
        for list_key in self._files:
            self._flush(list_key)
        return [(list_key, path) for list_key, (path, _) in self._files.items()]

    def _flush(self, list_key: str | None) -> None:
        path, waiting = self._files[list_key]
        with path.open("a", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows(waiting)
        waiting.clear()


class _Report:
    """Writes a line for each row, if there is a file."""

    def __init__(self, path: Path | None) -> None:
        self._file = None if path is None else path.open("w", encoding="utf-8", newline="")

    def __enter__(self) -> "_Report":
        if self._file is not None:
            csv.writer(self._file).writerow(REPORT_TITLES)
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def add(self, name: str, row: ExportedRow) -> None:
        if self._file is not None:
            result = row.status if row.problem is None else REFUSED
            cells = (name, row.line, escape_formula(row.email), result, row.problem or row.remark)
            csv.writer(self._file).writerow(cells)


def _check_options(wanted: SwitchOver) -> None:
    format_ = FORMATS[wanted.vendor]
    if format_.lists_column is not None and wanted.list_key is not None:
        raise InvalidInput("The lists come from the files. Leave the option out.", field="--list")
    if format_.lists_column is None and wanted.list_key is None:
        raise InvalidInput("Choose the list that the subscribers join.", field="--list")
    has_who_left = any(file.status is MemberStatus.UNSUBSCRIBED for file in wanted.files)
    if format_.hides_who_left_a_list and not (has_who_left or wanted.is_filtered):
        raise InvalidInput(
            f"{wanted.vendor.title()} exports people who left a list like subscribers. Export those who left and pass "
            "them with --unsubscribed FILE, or export subscribers only and pass --filtered.",
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
    if MemberStatus.UNSUBSCRIBED in statuses or MemberStatus.COMPLAINED in statuses:
        yield unsubscribe_fact(wanted.tenant_id, email, lists.GENERAL, source=source, at=now)
