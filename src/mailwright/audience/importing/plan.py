"""The plan of an import: how to read the file and what to do with its rows. Stored with the import."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Final

from mailwright.audience import contact_fields
from mailwright.audience.importing import columns, file_format
from mailwright.audience.importing.columns import ImportColumn
from mailwright.audience.importing.file_format import FileFormat
from mailwright.audience.importing.records import FileUnreadable, Record, RecordReader
from mailwright.audience.importing.rows import ContactRow, parse_row
from mailwright.audience.legal_basis import LegalBasis, LegalBasisRecord

PREVIEW_ROWS: Final = 5
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


@dataclass(frozen=True, slots=True)
class ImportPlan:
    file_format: FileFormat
    columns: tuple[ImportColumn, ...]
    list_key: str | None
    tags: tuple[str, ...]
    legal_basis: LegalBasisRecord | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            "form": {name: getattr(self.file_format, name) for name in FileFormat.__slots__},
            "columns": [[column.title, column.target] for column in self.columns],
            "listKey": self.list_key,
            "tags": list(self.tags),
            "legalBasis": self.legal_basis,
        }

    @classmethod
    def of_json(cls, stored: Mapping[str, Any]) -> "ImportPlan":
        file_format_ = FileFormat(**{**stored["form"], "warnings": tuple(stored["form"]["warnings"])})
        columns_ = tuple(ImportColumn(*column) for column in stored["columns"])
        return cls(file_format_, columns_, stored["listKey"], tuple(stored["tags"]), _basis(stored["legalBasis"]))


@dataclass(frozen=True, slots=True)
class ImportPreview:
    """The first rows, each as a contact or as the reason why it would be refused."""

    plan: ImportPlan
    rows: tuple[tuple[int, ContactRow | str], ...]


def make_plan(path: Path, options: ImportOptions, *, largest: int = MAX_FILE_BYTES) -> ImportPlan:
    size = path.stat().st_size
    if size > largest:
        raise FileUnreadable(f"The file is larger than {largest // 1024**2} MB.", field="file")
    format_, first = _read_start(path, options.encoding)
    if first is None:
        raise FileUnreadable("The file contains no rows.", field="file")
    line, cells, problem = first
    if problem:
        raise FileUnreadable(f"Line {line}: {problem}.", field="file")
    return ImportPlan(
        format_,
        _columns(cells, format_, options),
        options.list_key,
        contact_fields.normalize_tags(options.tags),
        options.legal_basis,
    )


def read_column_titles(path: Path, encoding: str | None = None) -> tuple[str, ...]:
    """Return the titles of the columns, or none if the file has no header."""
    format_, first = _read_start(path, encoding)
    if first is None or not format_.has_header:
        return ()
    _, cells, _ = first
    return tuple(cell.strip() for cell in cells)


def make_preview(path: Path, plan: ImportPlan, count: int = PREVIEW_ROWS) -> ImportPreview:
    with path.open("rb") as file, RecordReader(file, plan.file_format) as records:
        rows = islice(data_records(records, plan), count)
        return ImportPreview(plan, tuple((line, _preview_row(cells, problem, plan)) for line, cells, problem in rows))


def data_records(records: RecordReader, plan: ImportPlan) -> Iterator[Record]:
    """Return the records without the header."""
    return islice(records, 1 if plan.file_format.has_header else 0, None)


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
    try:
        file.seek(0)
        text = file.read(file_format.SAMPLE_BYTES).decode(encoding, "replace")
    except LookupError as error:
        raise FileUnreadable(f"There is no encoding {encoding!r}.", field="encoding") from error
    return replace(file_format.detect_format(text.encode()), encoding=encoding)


def _columns(first: Sequence[str], format_: FileFormat, options: ImportOptions) -> tuple[ImportColumn, ...]:
    if format_.has_header:
        return columns.map_columns(first, options.column_targets or {})
    email_at = next(n for n, cell in enumerate(first) if contact_fields.is_address(cell.strip()))
    return columns.columns_without_header(first, email_at)


def _preview_row(cells: Sequence[str], problem: str | None, plan: ImportPlan) -> ContactRow | str:
    if problem:
        return problem
    try:
        return parse_row(cells, plan.columns)
    except contact_fields.InvalidContact as error:
        return str(error)
