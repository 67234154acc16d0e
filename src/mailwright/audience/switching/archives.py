"""Export files that come as a zip archive or a spreadsheet."""

import zipfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Final

from mailwright.audience.importing.file_format import FileUnreadable
from mailwright.audience.importing.spreadsheets import convert_spreadsheet
from mailwright.audience.switching.exports import ExportFile

MAX_MEMBERS: Final = 1_000
_CHUNK: Final = 1024 * 1024


@contextmanager
def unpacked(files: Sequence[ExportFile], *, largest: int) -> Iterator[list[ExportFile]]:
    """Replace each zip archive by the CSV files in it, and each spreadsheet by a CSV file, until the block ends."""
    with ExitStack() as stack:
        found: list[ExportFile] = []
        for file in files:
            if not zipfile.is_zipfile(file.path):
                found.append(file)
                continue
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="mailwright-")))
            read = _convert if file.path.suffix.lower() == ".xlsx" else _extract
            found += [ExportFile(path, file.status) for path in read(file.path, folder, largest)]
        yield found


def _convert(spreadsheet: Path, folder: Path, largest: int) -> list[Path]:
    """Write the only sheet as CSV.

    Refuse a file with several sheets, because one could contain unsubscribed contacts.
    """
    path = folder / f"{spreadsheet.stem}.csv"
    if convert_spreadsheet(spreadsheet, path, largest=largest):
        reason = f"{spreadsheet.name} has several sheets. Save each of them as a CSV file."
        raise FileUnreadable(reason, field="file")
    return [path]


def _extract(archive: Path, folder: Path, largest: int) -> list[Path]:
    try:
        with zipfile.ZipFile(archive) as opened:
            members = [each for each in opened.infolist() if _is_export(PurePosixPath(each.filename))]
            if not 0 < len(members) <= MAX_MEMBERS:
                raise FileUnreadable(f"{archive.name} contains {len(members)} CSV files.", field="file")
            found: list[Path] = []
            for number, member in enumerate(members, start=1):
                found.append(_write(opened, member, folder / str(number), largest))
                largest -= found[-1].stat().st_size  # The limit holds for all files of an archive together.
            return found
    except FileUnreadable:
        raise
    except Exception as error:  # A damaged archive makes zipfile and its decompressors raise exceptions of many types.
        raise FileUnreadable(f"{archive.name} cannot be unpacked: {error}.", field="file") from error


def _is_export(path: PurePosixPath) -> bool:
    """Return whether a member is a CSV file. macOS adds a hidden file with metadata for each file."""
    return path.suffix.lower() == ".csv" and not path.name.startswith("._")


def _write(opened: zipfile.ZipFile, member: zipfile.ZipInfo, folder: Path, largest: int) -> Path:
    """Write a member of at most `largest` bytes. The size that an archive states can be wrong."""
    path, size = folder / PurePosixPath(member.filename).name, 0
    folder.mkdir()
    with opened.open(member) as source, path.open("xb") as target:
        while chunk := source.read(_CHUNK):
            size += len(chunk)
            if size > largest:
                raise FileUnreadable(f"{path.name} is too large to unpack.", field="file")
            target.write(chunk)
    return path
