"""Plans: how a file is read and what for. Made once, shown as a preview, and kept with the import."""

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
from mailwright.domain import address

PREVIEW_ROWS: Final = 5
MAX_FILE_BYTES: Final = 1024**3


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """What for: the list to join, tags that everyone gets, and columns that a person has named."""

    list_key: str | None = None
    tags: tuple[str, ...] = ()
    chosen: Mapping[str, str] | None = None
    is_confirmed: bool = False  # these people have confirmed elsewhere
    encoding: str | None = None


@dataclass(frozen=True, slots=True)
class ImportPlan:
    file_format: FileFormat
    columns: tuple[ImportColumn, ...]
    list_key: str | None
    tags: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        return {
            "form": {name: getattr(self.file_format, name) for name in FileFormat.__slots__},
            "columns": [[column.title, column.target] for column in self.columns],
            "listKey": self.list_key,
            "tags": list(self.tags),
        }

    @classmethod
    def of_json(cls, stored: Mapping[str, Any]) -> "ImportPlan":
        form = FileFormat(**{**stored["form"], "warnings": tuple(stored["form"]["warnings"])})
        named = tuple(ImportColumn(*each) for each in stored["columns"])
        return cls(form, named, stored["listKey"], tuple(stored["tags"]))


@dataclass(frozen=True, slots=True)
class ImportPreview:
    """The first rows, each as the person whom it would make or with the reason why it would be refused."""

    plan: ImportPlan
    rows: tuple[tuple[int, ContactRow | str], ...]


def make_plan(path: Path, purpose: ImportOptions, *, largest: int = MAX_FILE_BYTES) -> ImportPlan:
    size = path.stat().st_size
    if size > largest:
        raise FileUnreadable(f"is larger than {largest // 1024**2} MB, the most that is taken", field="file")
    with path.open("rb") as file:
        form = file_format.detect_format(file.read(file_format.SAMPLE_BYTES))
        if purpose.encoding is not None:
            form = _with_encoding(file, form, purpose.encoding)
        file.seek(0)
        with RecordReader(file, form) as records:
            first = next(iter(records), None)
        if first is None:
            raise FileUnreadable("holds no rows", field="file")
        line, cells, problem = first
        if problem:
            raise FileUnreadable(f"line {line}: {problem}", field="file")
        return ImportPlan(form, _columns(cells, form, purpose), purpose.list_key, contact_fields.tags(purpose.tags))


def read_column_titles(path: Path, encoding: str | None = None) -> tuple[str, ...]:
    """What the first row calls the columns; none where the file has no header. Nothing is said of what they are."""
    with path.open("rb") as file:
        form = file_format.detect_format(file.read(file_format.SAMPLE_BYTES))
        if encoding is not None:
            form = _with_encoding(file, form, encoding)
        file.seek(0)
        with RecordReader(file, form) as records:
            first = next(iter(records), None)
    if first is None or not form.has_header:
        return ()
    _, cells, _ = first  # none of them where they cannot be read
    return tuple(cell.strip() for cell in cells)


def make_preview(path: Path, plan: ImportPlan, count: int = PREVIEW_ROWS) -> ImportPreview:
    with path.open("rb") as file, RecordReader(file, plan.file_format) as records:
        rows = islice(data_records(records, plan), count)
        return ImportPreview(plan, tuple((line, _shown(cells, problem, plan)) for line, cells, problem in rows))


def data_records(records: RecordReader, plan: ImportPlan) -> Iterator[Record]:
    """Without the header."""
    return islice(records, 1 if plan.file_format.has_header else 0, None)


def fingerprint(path: Path) -> tuple[str, int]:
    """Tells one file from another that has the same name; and its size."""
    size = path.stat().st_size
    digest = hashlib.sha256(str(size).encode())
    with path.open("rb") as file:
        digest.update(file.read(file_format.SAMPLE_BYTES))
        file.seek(max(0, size - file_format.SAMPLE_BYTES))
        digest.update(file.read(file_format.SAMPLE_BYTES))
    return digest.hexdigest(), size


def _with_encoding(file: BinaryIO, form: FileFormat, encoding: str) -> FileFormat:
    """As a person says it is; the rest is found out anew in that light."""
    try:
        file.seek(0)
        text = file.read(file_format.SAMPLE_BYTES).decode(encoding, "replace")
    except LookupError as error:
        raise FileUnreadable(f"there is no encoding {encoding!r}", field="encoding") from error
    return replace(file_format.detect_format(text.encode()), encoding=encoding)


def _columns(first: Sequence[str], form: FileFormat, purpose: ImportOptions) -> tuple[ImportColumn, ...]:
    if form.has_header:
        return columns.map_columns(first, purpose.chosen or {})
    return columns.columns_without_header(first, next(n for n, cell in enumerate(first) if _is_address(cell)))


def _is_address(cell: str) -> bool:
    try:
        address.parse(cell.strip())
    except address.InvalidAddress:
        return False
    return True


def _shown(cells: Sequence[str], problem: str | None, plan: ImportPlan) -> ContactRow | str:
    if problem:
        return problem
    try:
        return parse_row(cells, plan.columns)
    except contact_fields.InvalidContact as error:
        return str(error)
