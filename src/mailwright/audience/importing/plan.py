"""The plan of an import: how to read the file and what to do with its rows. Stored with the import."""

import codecs
import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Final

from mailwright.audience import contact_fields
from mailwright.audience.csv_cells import unescape_formula
from mailwright.audience.importing import columns, file_format
from mailwright.audience.importing.columns import ImportColumn
from mailwright.audience.importing.file_format import FileFormat, FileUnreadable
from mailwright.audience.importing.records import Record, RecordReader
from mailwright.audience.importing.repeats import RowCounter
from mailwright.audience.importing.rows import (
    ContactRow,
    RefusedRow,
    RowReader,
    has_format,
    is_optional,
    optional_problem,
)
from mailwright.audience.importing.subscription_answers import SubscriptionAnswer
from mailwright.audience.importing.value_formats import LABELS, ColumnFormat, OddCells, convert, judge_columns
from mailwright.audience.legal_basis import LegalBasis, LegalBasisRecord
from mailwright.domain.lazy_dataclass import dataclass

PREVIEW_ROWS: Final = 5
# A preview reads this many rows to count those that will be refused, which takes about a second.
MAX_PREVIEW_CHECKED: Final = 100_000
MAX_FILE_BYTES: Final = 1024**3


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """The user's choices for an import: the list, tags for every contact, and the targets of columns."""

    list_key: str | None = None
    tags: tuple[str, ...] = ()
    column_targets: Mapping[str, str] | None = None
    is_confirmed: bool = False  # the contacts have confirmed their subscription elsewhere
    encoding: str | None = None
    legal_basis: LegalBasisRecord | None = None  # for contacts who have not subscribed
    other_sheets: tuple[str, ...] = ()  # the sheets of a spreadsheet that are not imported
    starts_sequences: bool = False  # whether new subscribers enter the sequences that the list starts
    keeps_subscriptions: bool = False  # of subscribers for whom the file says no
    asks: bool = False  # whether contacts who have not agreed get a confirmation email; the list uses double opt-in


@dataclass(frozen=True, slots=True)
class ImportPlan:
    file_format: FileFormat
    columns: tuple[ImportColumn, ...]
    list_key: str | None
    tags: tuple[str, ...]
    legal_basis: LegalBasisRecord | None = None
    notes: tuple[str, ...] = ()  # about the formats of values and repeated addresses
    rows: int = 0  # in the file, without the header
    starts_sequences: bool = False
    keeps_subscriptions: bool = False
    asks: bool = False
    is_confirmed: bool = True  # whether a yes, or a file without answers, subscribes without a confirmation

    @property
    def asks_subscription(self) -> bool:
        """Whether the file says for each contact whether they want the newsletter."""
        return any(column.target in columns.ANSWERS for column in self.columns)

    @property
    def warnings(self) -> tuple[str, ...]:
        return (*self.file_format.warnings, *self.notes)

    def as_json(self) -> dict[str, Any]:
        return {
            "form": {name: getattr(self.file_format, name) for name in FileFormat.__slots__},
            "columns": [[column.title, column.target, column.format] for column in self.columns],
            "listKey": self.list_key,
            "tags": list(self.tags),
            "legalBasis": self.legal_basis,
            "notes": list(self.notes),
            "rows": self.rows,
            "startsSequences": self.starts_sequences,
            "keepsSubscriptions": self.keeps_subscriptions,
            "asks": self.asks,
            "isConfirmed": self.is_confirmed,
        }

    @classmethod
    def of_json(cls, stored: Mapping[str, Any]) -> "ImportPlan":
        file_format_ = FileFormat(**{**stored["form"], "warnings": tuple(stored["form"]["warnings"])})
        columns_ = tuple(ImportColumn(*column) for column in stored["columns"])
        basis, notes = _basis(stored["legalBasis"]), tuple(stored["notes"])
        return cls(
            file_format_,
            columns_,
            stored["listKey"],
            tuple(stored["tags"]),
            basis,
            notes,
            stored["rows"],
            stored["startsSequences"],
            stored.get("keepsSubscriptions", False),
            stored.get("asks", False),
            stored.get("isConfirmed", True),
        )


@dataclass(frozen=True, slots=True)
class ImportPreview:
    """The first rows, each as a contact or with the reason why it would be refused, and the first refused rows."""

    plan: ImportPlan
    rows: tuple[tuple[int, ContactRow | RefusedRow], ...]
    checked: int  # rows that were read: all of them, or the first ones of a large file
    refused: int  # of the checked rows
    first_refused: tuple[tuple[int, RefusedRow], ...]
    answers: Mapping[SubscriptionAnswer, int]  # the answers of the checked rows to the newsletter
    first_unreadable: tuple[tuple[int, ContactRow], ...] = ()  # the first rows whose answer is neither yes nor no
    wants: Mapping[str, int] = field(default_factory=dict)  # the checked addresses that agree, with their lines
    blocked: Mapping[str, str] = field(default_factory=dict)  # those who agree in vain, with the reasons

    @property
    def first_blocked(self) -> list[tuple[int, str, str]]:
        """Return the first addresses that agree in vain, each with its line and the reason."""
        return sorted((self.wants[email], email, why) for email, why in self.blocked.items())[:PREVIEW_ROWS]


def make_plan(path: Path, options: ImportOptions, *, largest: int = MAX_FILE_BYTES) -> ImportPlan:
    size = path.stat().st_size
    if size > largest:
        raise FileUnreadable("The file is larger than {megabytes} MB.", field="file", megabytes=largest // 1024**2)
    format_, first = _read_start(path, options.encoding)
    if first is None:
        raise FileUnreadable("The file contains no rows.", field="file")
    line, cells, problem = first
    if problem:
        raise FileUnreadable("Line {number}: {problem}.", field="file", number=line, problem=problem)
    columns_ = _columns(cells, format_, options)
    counter = RowCounter(next(number for number, column in enumerate(columns_) if column.target == "email"))
    columns_, notes = _detect_value_formats(path, format_, columns_, counter)
    tags = contact_fields.normalize_tags(options.tags)
    repeats = counter.note()
    notes = (
        *_sheet_notes(options.other_sheets),
        *((repeats,) if repeats else ()),
        *_answer_notes(columns_, options.list_key),
        *notes,
    )
    return ImportPlan(
        format_,
        columns_,
        options.list_key,
        tags,
        options.legal_basis,
        notes,
        counter.rows,
        options.starts_sequences,
        options.keeps_subscriptions,
        options.asks,
        options.is_confirmed or not options.asks,
    )


def _sheet_notes(others: Sequence[str]) -> Iterator[str]:
    if others:
        names = ", ".join(others)
        yield f"Only the first sheet is imported. To import these sheets too, save each as a file: {names}."


def _answer_notes(columns_: Sequence[ImportColumn], list_key: str | None) -> Iterator[str]:
    """Say who is subscribed, if a column has answers to the newsletter or looks like it."""
    for each in columns_:
        if each.target == "subscribed":
            yield f"{each.title}: only contacts whose cell says yes are subscribed."
        elif each.target == "opted_out":
            yield f"{each.title}: contacts whose cell says yes are not subscribed."
        elif list_key is not None and columns.suggest_target(each.title) in columns.ANSWERS:
            yield f"{each.title} is not read as an answer, so contacts who said no are subscribed too."


def _detect_value_formats(
    path: Path, format_: FileFormat, columns_: Sequence[ImportColumn], counter: RowCounter
) -> tuple[tuple[ImportColumn, ...], tuple[str, ...]]:
    """Detect the number or date format of each attribute column from the whole file. Add a note if it is uncertain."""
    unknown = {number: column.title for number, column in enumerate(columns_) if _is_unknown(column)}
    with path.open("rb") as file, RecordReader(file, format_) as records:
        values = judge_columns(unknown, _rows(counter.watch(_without_header(records, format_))))
    judged, notes = list(columns_), []
    for number, column in values.items():
        found, question = column.judge()
        judged[number] = replace(judged[number], format=found)
        notes += [question] if question else []
    return tuple(judged), (*notes, *_odd_cells(path, format_, judged))


def _odd_cells(path: Path, format_: FileFormat, judged: Sequence[ImportColumn]) -> list[str]:
    odd = {
        number: OddCells(each.title, "text" if has_format(each) else "empty")
        for number, each in enumerate(judged)
        if has_format(each) or is_optional(each)
    }
    if not odd:
        return []
    with path.open("rb") as file, RecordReader(file, format_) as records:
        for line, cells in _rows(_without_header(records, format_)):
            for number, column in odd.items():
                text = cells[number].strip() if number < len(cells) else ""
                if text and (problem := _cell_problem(judged[number], unescape_formula(text))):
                    column.add(line, problem)
    return [note for column in odd.values() if (note := column.note())]


def _cell_problem(column: ImportColumn, text: str) -> str | None:
    if not has_format(column):
        return optional_problem(column.target, text)
    return None if convert(text, column.format) is not None else f"read as {LABELS[ColumnFormat(column.format)]}"


def _rows(records: Iterable[Record]) -> Iterator[tuple[int, list[str]]]:
    return ((line, cells) for line, cells, problem in records if problem is None)


def _without_header(records: RecordReader, format_: FileFormat) -> Iterator[Record]:
    return islice(records, 1 if format_.has_header else 0, None)


def _is_unknown(column: ImportColumn) -> bool:
    return column.target not in columns.FIELDS and column.target != columns.SKIPPED and not column.format


def read_column_titles(path: Path, encoding: str | None = None) -> tuple[str, ...]:
    """Return the titles of the columns, or an empty tuple if the file has no header."""
    format_, first = _read_start(path, encoding)
    if first is None or not format_.has_header:
        return ()
    _, cells, _ = first
    return tuple(cell.strip() for cell in cells)


def make_preview(path: Path, plan: ImportPlan, count: int = PREVIEW_ROWS) -> ImportPreview:
    with path.open("rb") as file, RecordReader(file, plan.file_format) as records:
        reader = RowReader(plan.columns)
        shown: list[tuple[int, ContactRow | RefusedRow]] = []
        first_refused: list[tuple[int, RefusedRow]] = []
        checked = refused = 0
        answers: Counter[SubscriptionAnswer] = Counter()
        unreadable: list[tuple[int, ContactRow]] = []
        said: dict[str, tuple[int, SubscriptionAnswer | None]] = {}
        for line, cells, problem in islice(data_records(records, plan), MAX_PREVIEW_CHECKED):
            row = _preview_row(cells, problem, reader)
            checked += 1
            if checked <= count:
                shown.append((line, row))
            if isinstance(row, RefusedRow):
                refused += 1
                if len(first_refused) < count:
                    first_refused.append((line, row))
                continue
            first, earlier = said.get(row.email, (line, row.answer))
            said[row.email] = first, earlier if row.answer is None else row.answer.merge(earlier)
            if row.answer is not None:
                answers[row.answer] += 1
                if row.answer is SubscriptionAnswer.UNREADABLE and len(unreadable) < count:
                    unreadable.append((line, row))
        wants = {email: line for email, (line, answer) in said.items() if answer in (None, SubscriptionAnswer.YES)}
        return ImportPreview(
            plan, tuple(shown), checked, refused, tuple(first_refused), answers, tuple(unreadable), wants
        )


def data_records(records: RecordReader, plan: ImportPlan) -> Iterator[Record]:
    """Return the records without the header."""
    return _without_header(records, plan.file_format)


def fingerprint(path: Path) -> tuple[str, int]:
    """Identify a file by its size, beginning and end. Also return its size."""
    size = path.stat().st_size
    digest = hashlib.sha256(str(size).encode())
    with path.open("rb") as file:
        digest.update(file.read(file_format.SAMPLE_BYTES))
        file.seek(max(0, size - file_format.SAMPLE_BYTES))
        digest.update(file.read(file_format.SAMPLE_BYTES))
    return digest.hexdigest(), size


def _basis(stored: Mapping[str, Any] | None) -> LegalBasisRecord | None:
    return None if stored is None else LegalBasisRecord(**{**stored, "basis": LegalBasis(stored["basis"])})


def _read_start(path: Path, encoding: str | None) -> tuple[FileFormat, Record | None]:
    """Return the format of a file and its first record."""
    with path.open("rb") as file:
        format_ = file_format.detect_format(file.read(file_format.SAMPLE_BYTES))
        if encoding is not None:
            format_ = _with_encoding(file, encoding)
        file.seek(0)
        with RecordReader(file, format_) as records:
            return format_, next(iter(records), None)


def _with_encoding(file: BinaryIO, encoding: str) -> FileFormat:
    """Detect the rest of the format with the encoding that the user has chosen."""
    file.seek(0)
    try:
        codecs.lookup(encoding)  # Decoding an empty file would not raise for an unknown encoding.
        text = file.read(file_format.SAMPLE_BYTES).decode(encoding, "replace")
    except (LookupError, ValueError) as error:
        raise FileUnreadable(
            "Unknown encoding {encoding}. Try utf-8 or cp1251.", field="encoding", encoding=repr(encoding)
        ) from error
    return replace(file_format.detect_format(text.encode()), encoding=encoding)


def _columns(first: Sequence[str], format_: FileFormat, options: ImportOptions) -> tuple[ImportColumn, ...]:
    if format_.has_header:
        return columns.map_columns(first, options.column_targets or {})
    email_at = next(n for n, cell in enumerate(first) if contact_fields.is_address(cell.strip()))
    return columns.columns_without_header(first, email_at)


def _preview_row(cells: list[str], problem: str | None, reader: RowReader) -> ContactRow | RefusedRow:
    if problem:
        return RefusedRow(reader.address(cells), problem)
    try:
        return reader.read(cells)
    except contact_fields.InvalidContact as error:
        return RefusedRow(reader.address(cells), str(error))
