"""Convert spreadsheets (.xlsx) to CSV within size limits, and recognise unsupported file formats."""

import csv
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime, time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from mailwright.audience.importing.columns import MAX_COLUMNS
from mailwright.audience.importing.file_format import FileUnreadable
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.translation import lazy_gettext

_SIGNATURE_BYTES: Final = 8
_ZIP: Final = b"PK\x03\x04"
# File signatures of unsupported formats.
_OTHER_FILES: Final = {
    b"PK\x05\x06": lazy_gettext("an empty ZIP archive"),
    b"\xd0\xcf\x11\xe0": lazy_gettext("an old Excel file (.xls) or one with a password"),
    b"\x1f\x8b": lazy_gettext("a gzip archive"),
    b"7z\xbc\xaf\x27\x1c": lazy_gettext("a 7-Zip archive"),
    b"Rar!": lazy_gettext("a RAR archive"),
    b"%PDF": lazy_gettext("a PDF document"),
    b"\x89PNG": lazy_gettext("an image"),
    b"\xff\xd8\xff": lazy_gettext("an image"),
    b"SQLite f": lazy_gettext("a database"),
}
_REMEDY: Final = lazy_gettext("Save the contacts as CSV or .xlsx and upload that.")

_MAX_ROWS: Final = 1_048_576  # the limit of the .xlsx format
_EXAMINED_ROWS: Final = 100  # rows that are read of each sheet that is not imported
_MAX_MEMBERS: Final = 1_000
# Size limit of members that are not sheets, because openpyxl reads them into memory as a whole.
_MAX_MEMBER_BYTES: Final = 64 * 1024**2
_MAX_RATIO: Final = 200  # the maximum compression ratio; real sheets have 5 to 50
_MIN_CHECKED_BYTES: Final = 1024**2


def is_spreadsheet(path: Path) -> bool:
    """Return whether a file is an .xlsx file. Raise if it is another format that cannot be CSV."""
    with path.open("rb") as file:
        start = file.read(_SIGNATURE_BYTES)
    for signature, what in _OTHER_FILES.items():
        if start.startswith(signature):
            raise FileUnreadable("The file is {what}. {remedy}", field="file", what=what, remedy=_REMEDY)
    if not start.startswith(_ZIP):
        return False
    names = _member_names(path)
    if "xl/workbook.xml" not in names:
        what = lazy_gettext("an OpenDocument file") if "content.xml" in names else lazy_gettext("a ZIP archive")
        raise FileUnreadable("The file is {what}. {remedy}", field="file", what=what, remedy=_REMEDY)
    return True


@dataclass(frozen=True, slots=True)
class ReadableFile:
    """A file that can be read as CSV."""

    path: Path
    other_sheets: tuple[str, ...] = ()  # sheets of a spreadsheet that have rows and are not in the file


@contextmanager
def as_csv(path: Path, *, largest: int) -> Iterator[ReadableFile]:
    """Yield a file that can be read as CSV: the file itself, or its first sheet in a temporary file."""
    if not is_spreadsheet(path):
        yield ReadableFile(path)
        return
    with TemporaryDirectory(prefix="mailwright-") as folder:
        converted = Path(folder) / "sheet.csv"
        yield ReadableFile(converted, convert_spreadsheet(path, converted, largest=largest))


def convert_spreadsheet(path: Path, target: Path, *, largest: int) -> tuple[str, ...]:
    """Write the first sheet as CSV in UTF-8, and return the names of the other sheets that have rows.

    The line numbers of the CSV are the row numbers of the sheet.
    """
    _check_size(path, largest)
    try:
        return _convert(path, target, largest)
    except FileUnreadable:
        raise
    except Exception as error:  # A damaged file makes openpyxl raise exceptions of many types.
        raise FileUnreadable("The spreadsheet cannot be read. {remedy}", field="file", remedy=_REMEDY) from error


def _convert(path: Path, target: Path, largest: int) -> tuple[str, ...]:
    from openpyxl import load_workbook  # noqa: PLC0415 - takes a while, and only spreadsheets need it

    with path.open("rb") as source, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # openpyxl warns about styles, which are not read.
        workbook = load_workbook(source, read_only=True, data_only=True, keep_links=False)
        if not workbook.worksheets:
            raise FileUnreadable("The spreadsheet has no sheets.", field="file")
        sheet: Any = workbook.worksheets[0]
        sheet.reset_dimensions()  # The stated size can be wrong.
        # Do not set max_col, so that missing rows are cheap empty tuples. A forged row number causes a million of them.
        rows = sheet.iter_rows(values_only=True, max_row=_MAX_ROWS)
        with target.open("w", encoding="utf-8", newline="") as file:
            writer, empty = csv.writer(file, lineterminator="\n"), 0
            for values in rows:
                # Keep one column more than allowed, so that the caller notices and reports too many columns.
                if not (cells := _trimmed([_text(value) for value in values[: MAX_COLUMNS + 1]])):
                    empty += 1
                    continue
                file.write("\n" * empty)
                empty = 0
                writer.writerow(cells)
                if file.tell() > largest:
                    raise FileUnreadable(
                        "The sheet is larger than {megabytes} MB.", field="file", megabytes=largest // 1024**2
                    )
        return tuple(other.title for other in workbook.worksheets[1:] if _has_rows(other))


def _has_rows(sheet: Any) -> bool:
    """Return whether a sheet has rows. Only its beginning is read."""
    sheet.reset_dimensions()
    rows = sheet.iter_rows(values_only=True, max_col=MAX_COLUMNS, max_row=_EXAMINED_ROWS)
    return any(value is not None for values in rows for value in values)


def _text(value: Any) -> str:
    """Return a cell as text. Numbers, dates and booleans get the format that filters compare."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case datetime():
            is_day = value.time() == time()
            return value.date().isoformat() if is_day else value.isoformat(sep=" ", timespec="seconds")
        case date() | time():
            return value.isoformat()
        case float() if value.is_integer() and abs(value) < 1e15:
            return str(int(value))
        case _:
            # Write one line per row, so that line numbers are row numbers.
            return " ".join(str(value).splitlines())


def _trimmed(cells: list[str]) -> Sequence[str]:
    """Drop empty cells at the end of a row."""
    while cells and not cells[-1]:
        cells.pop()
    return cells


def _member_names(path: Path) -> set[str]:
    return {member.filename for member in _members(path)}


def _members(path: Path) -> list[zipfile.ZipInfo]:
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.infolist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise FileUnreadable("The file is a damaged ZIP archive. {remedy}", field="file", remedy=_REMEDY) from error


def _check_size(path: Path, largest: int) -> None:
    """Refuse ZIP bombs. The stated sizes can be trusted, because no member is unpacked beyond its stated size."""
    members = _members(path)
    size = sum(member.file_size for member in members)
    if len(members) > _MAX_MEMBERS or size > max(largest, _MAX_MEMBER_BYTES):
        raise FileUnreadable(
            "The spreadsheet is larger than {megabytes} MB when unpacked.", field="file", megabytes=largest // 1024**2
        )
    for member in members:
        is_sheet = member.filename.startswith("xl/worksheets/")
        if not is_sheet and member.file_size > _MAX_MEMBER_BYTES:
            raise FileUnreadable(
                "The spreadsheet has more than {megabytes} MB of text. Save it as CSV.",
                field="file",
                megabytes=_MAX_MEMBER_BYTES // 1024**2,
            )
        is_bomb = member.file_size > _MIN_CHECKED_BYTES and member.file_size > _MAX_RATIO * member.compress_size
        if is_bomb:
            raise FileUnreadable(
                "The spreadsheet's compression ratio is too high to be safe. {remedy}", field="file", remedy=_REMEDY
            )
