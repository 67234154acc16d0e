"""Move the contacts of another product: first those who must not get email, then the subscribers.

Every row of the files is counted once, as subscribed, unsubscribed, bounced or refused. Run it again after an
interruption: it changes nothing that is already right.
"""

import asyncio
import csv
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from mailwright.audience import lists
from mailwright.audience.csv_cells import escape_formula
from mailwright.audience.importing.imports import Imports
from mailwright.audience.importing.plan import ImportOptions
from mailwright.audience.status import StatusFact, apply_facts, bounce_fact, complaint_fact, unsubscribe_fact
from mailwright.audience.switching.exports import ExportedRow, ExportFile, ExportReader
from mailwright.audience.switching.vendors import FORMATS, MemberStatus, Vendor
from mailwright.domain.clock import Clock, Instant
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
    """The result of reading all files: counts, people who must not get email, and files to import by list."""

    counts: SwitchCounts
    restricted: dict[str, MemberStatus]
    imports: list[tuple[str | None, Path]] = field(default_factory=list)


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
            await self._create_lists(wanted.tenant_id, prepared, actor)
            await self._check(wanted, prepared)
            await self._restrict(wanted, prepared.restricted)
            for list_key, file in prepared.imports:
                await self._import(wanted, list_key, file, actor)
        return prepared.counts

    def _prepare(self, wanted: SwitchOver, folder: Path, report: Path | None) -> _Prepared:
        readers = [ExportReader(wanted.vendor, file, largest=self._largest) for file in wanted.files]
        has_lists = FORMATS[wanted.vendor].lists_column is not None
        if wanted.list_key is None and not has_lists:
            raise InvalidInput("Choose the list that the subscribers join.", field="--list")
        restricted = _restricted(row for reader in readers for row in reader.rows())
        prepared = _Prepared(SwitchCounts(), restricted)
        with _Report(report) as lines:
            for number, (file, reader) in enumerate(zip(wanted.files, readers, strict=True)):
                split = _SplitFile(folder, number, _titles(reader.rows()))
                for row in reader.rows():
                    result = _count(prepared, row)
                    lines.add(file.path.name, row, result)
                    if result != REFUSED:
                        split.write(_lists(wanted, row, result), row)
                prepared.imports += split.close()
        assert prepared.counts.adds_up
        return prepared

    async def _create_lists(self, tenant_id: int, prepared: _Prepared, actor: str) -> None:
        needed = sorted({list_key for list_key, _ in prepared.imports if list_key is not None})
        async with self._database.read() as tx:
            known = await lists.existing_keys(tx, tenant_id, needed)
        for list_key in needed:
            if list_key not in known:
                await lists.create(self._database, self._clock, tenant_id, list_key, actor=actor)

    async def _check(self, wanted: SwitchOver, prepared: _Prepared) -> None:
        """Raise the errors of all imports before anything is stored."""
        imports = Imports(self._database, self._clock, largest=self._largest)
        for list_key, file in prepared.imports:
            await imports.preview(wanted.tenant_id, file, _options(wanted, list_key))

    async def _restrict(self, wanted: SwitchOver, restricted: dict[str, MemberStatus]) -> None:
        now = self._clock.now()
        people = iter(sorted(restricted.items()))
        while batch := list(islice(people, _BATCH)):
            facts = [_fact(wanted, email, status, now) for email, status in batch]
            await self._database.transact(partial(apply_facts, facts=facts, now=now))

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
            name = f"{self._number + 1}-{list_key or 'without-list'}.csv"
            _, waiting = self._files.setdefault(list_key, (self._folder / name, [self._titles]))
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

    def add(self, name: str, row: ExportedRow, result: str) -> None:
        if self._file is not None:
            cells = (name, row.line, escape_formula(row.email), result, row.problem or "")
            csv.writer(self._file).writerow(cells)


def _restricted(rows: Iterator[ExportedRow]) -> dict[str, MemberStatus]:
    """Return the people who must not get bulk email, with the strongest reason of all their rows."""
    found: dict[str, MemberStatus] = {}
    for row in rows:
        if row.problem is None and row.status is not MemberStatus.SUBSCRIBED:
            found[row.email] = max(found.get(row.email, row.status), row.status, key=_ORDER.index)
    return found


def _titles(rows: Iterator[ExportedRow]) -> list[str]:
    return list(dict.fromkeys(title for row in rows for title in row.cells))


def _count(prepared: _Prepared, row: ExportedRow) -> str:
    counts = prepared.counts
    counts.rows += 1
    if row.problem is not None:
        counts.refused += 1
        return REFUSED
    status = prepared.restricted.get(row.email, MemberStatus.SUBSCRIBED)
    if status is MemberStatus.SUBSCRIBED:
        counts.subscribed += 1
    elif status is MemberStatus.BOUNCED:
        counts.bounced += 1
    else:
        counts.unsubscribed += 1
        counts.complained += status is MemberStatus.COMPLAINED
    return status


def _lists(wanted: SwitchOver, row: ExportedRow, result: str) -> tuple[str | None, ...]:
    """Return the lists that a row joins. Contacts who must not get email are stored without a list."""
    if result != MemberStatus.SUBSCRIBED:
        return (None,)
    return row.lists or (wanted.list_key,)


def _options(wanted: SwitchOver, list_key: str | None) -> ImportOptions:
    return ImportOptions(list_key, is_confirmed=wanted.is_confirmed)


def _fact(wanted: SwitchOver, email: str, status: MemberStatus, now: Instant) -> StatusFact:
    source = wanted.vendor.value
    if status is MemberStatus.BOUNCED:
        return bounce_fact(wanted.tenant_id, email, source=source, at=now)
    if status is MemberStatus.COMPLAINED:
        return complaint_fact(wanted.tenant_id, email, source=source, at=now)
    return unsubscribe_fact(wanted.tenant_id, email, lists.GENERAL, source=source, at=now)
