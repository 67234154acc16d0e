"""Read the export files of another product, row by row."""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC
from pathlib import Path
from typing import Any, Final

import orjson

from mailwright.audience.contact_fields import (
    MAX_ATTRIBUTES,
    InvalidContact,
    as_text,
    attribute_name_from_title,
    normalize_deliverable_email,
)
from mailwright.audience.importing.columns import FIELDS, SKIPPED, suggest_target
from mailwright.audience.importing.plan import ImportOptions, data_records, make_plan, read_column_titles
from mailwright.audience.importing.records import RecordReader
from mailwright.audience.importing.rows import RowReader
from mailwright.audience.lists import KEY_PATTERN
from mailwright.audience.switching.vendors import FORMATS, MemberStatus, Vendor, status_of_file, strongest
from mailwright.domain.address import split_mailbox
from mailwright.domain.clock import Instant
from mailwright.domain.errors import InvalidInput
from mailwright.domain.foreign_json import load_json
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.schedule import parse_time

STATUS: Final = "status"
_LIST_KEY: Final = re.compile(KEY_PATTERN)


@dataclass(frozen=True, slots=True)
class ExportFile:
    """An export file. A given status applies to all of its rows."""

    path: Path
    status: MemberStatus | None = None


@dataclass(frozen=True, slots=True)
class ExportedRow:
    """A row of an export. A row with a problem is refused. A status of None is unknown."""

    line: int
    email: str
    cells: Mapping[str, str]  # by the title of an import file
    status: MemberStatus | None
    lists: tuple[str, ...] = ()
    snoozed_until: Instant | None = None
    problem: str | None = None
    remark: str = ""


class ExportReader:
    """Reads one file. The rows have the titles that an import file needs."""

    def __init__(self, vendor: Vendor, file: ExportFile, *, largest: int) -> None:
        self._format = FORMATS[vendor]
        self._vendor, self._file = vendor, file
        self._largest = largest
        self._titles = read_column_titles(file.path)
        if not self._titles and file.status is None:
            raise InvalidInput(f"{file.path.name}: the first line must contain the titles of columns.", field="file")
        self._check_status_column()
        self._status = file.status or status_of_file(vendor, file.path, self._titles)
        self._email_title = "email"

    def _check_status_column(self) -> None:
        """Raise if the status column is missing, because contacts who unsubscribed would be subscribed."""
        has_status = STATUS in {title.lower() for title in self._titles}
        if self._format.statuses is not None and self._file.status is None and not has_status:
            raise InvalidInput(
                f"{self._file.path.name}: the column `{STATUS}` is missing, so it is not clear who unsubscribed. "
                f"Export the contacts from {self._vendor.label} again with all columns.",
                field="file",
            )

    def rows(self) -> Iterator[ExportedRow]:
        """Yield every row, also a row that has several lines in the file."""
        plan = make_plan(self._file.path, ImportOptions(column_targets=self._targets()), largest=self._largest)
        reader = RowReader(plan.columns)
        if self._titles:
            self._email_title = next(column.title for column in plan.columns if column.target == "email")
        with self._file.path.open("rb") as opened, RecordReader(opened, plan.file_format) as records:
            for line, cells, problem in data_records(records, plan):
                if problem is not None:
                    yield ExportedRow(line, "", {}, None, problem=problem)
                    continue
                named = dict(zip(self._titles or [column.title for column in plan.columns], cells, strict=False))
                yield self._row(line, reader, list(cells), named)

    def _row(self, line: int, reader: RowReader, cells: list[str], named: dict[str, str]) -> ExportedRow:
        written, status = reader.address(cells), self._status_of(named)
        try:
            email = normalize_deliverable_email(split_mailbox(written)[1] if written.endswith(">") else written)
        except InvalidContact as error:
            return ExportedRow(line, written, {}, status, problem=str(error))
        if status is None:
            word = _cell(named, STATUS)[:40]
            return ExportedRow(line, email, {}, None, problem=f"The status {word!r} is unknown.")
        try:
            reader.read(cells)
            return ExportedRow(
                line, email, self._kept(named, written), status, self._lists(named), self._snoozed_until(named)
            )
        except InvalidContact as error:
            if status is MemberStatus.SUBSCRIBED:
                return ExportedRow(line, email, {}, status, problem=str(error))
            # An unsubscribe is recorded even if the rest of the row cannot be stored.
            return ExportedRow(line, email, {self._email_title: email}, status, remark=f"Only the address: {error}")

    def _targets(self) -> dict[str, str]:
        """Skip the columns that are not imported, and those that this module reads itself."""
        format_ = self._format
        own = {format_.json_column, format_.lists_column, format_.snooze_column, STATUS if format_.statuses else None}
        skipped = {*self._format.ignored, *own}
        return {title: SKIPPED for title in self._titles if title.strip().lower() in skipped}

    def _status_of(self, named: Mapping[str, str]) -> MemberStatus | None:
        if self._format.statuses is None:
            return self._status
        written = self._format.statuses.get(_cell(named, STATUS).lower())
        if self._file.status is None:
            return written
        is_subscriber = written is MemberStatus.SUBSCRIBED
        if is_subscriber and self._file.status is MemberStatus.UNSUBSCRIBED and self._format.hides_unsubscribed:
            return MemberStatus.LEFT_LIST
        return strongest([self._file.status, written or self._file.status])

    def _lists(self, named: Mapping[str, str]) -> tuple[str, ...]:
        if self._format.lists_column is None:
            return ()
        keys = tuple(key.strip() for key in _cell(named, self._format.lists_column).split(",") if key.strip())
        for key in keys:
            if not _LIST_KEY.fullmatch(key):
                raise InvalidContact(f"{key[:63]!r} is not the key of a list.")
        return keys

    def _snoozed_until(self, named: Mapping[str, str]) -> Instant | None:
        text = _cell(named, self._format.snooze_column) if self._format.snooze_column else ""
        try:
            return parse_time(text, UTC) if text else None
        except ValueError as error:
            raise InvalidContact(f"snoozed_until: {text[:40]!r} is not a time.") from error

    def _kept(self, named: Mapping[str, str], address: str) -> dict[str, str]:
        if not self._titles:
            return {self._email_title: address}
        skipped = self._targets()
        kept = {title: cell for title, cell in named.items() if title not in skipped}
        if self._format.json_column is not None:
            kept |= self._members(_cell(named, self._format.json_column))
        return kept

    def _members(self, text: str) -> dict[str, str]:
        """Return the members of a JSON object as attributes. Objects and lists stay JSON."""
        try:
            members: Any = load_json(text) if text else {}
        except orjson.JSONDecodeError as error:
            raise InvalidContact(f"The attributes are not valid JSON: {text[:40]!r}.") from error
        if not isinstance(members, dict):
            raise InvalidContact(f"The attributes are not a JSON object: {text[:40]!r}.")
        return {
            self._attribute(name): as_text(value)
            for title, value in list(members.items())[:MAX_ATTRIBUTES]
            if value is not None and (name := attribute_name_from_title(title))
        }

    def _attribute(self, name: str) -> str:
        """Return the title of an attribute. `email`, for example, would replace the address of the contact."""
        return name if suggest_target(name) == name and name not in FIELDS else f"{self._vendor}_{name}"


def _cell(named: Mapping[str, str], title: str) -> str:
    return next((cell.strip() for name, cell in named.items() if name.strip().lower() == title), "")
