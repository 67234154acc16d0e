"""Read and write slices as Markdown files with front matter, or as CSV rows. Every error names its line."""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from mailwright.domain.clock import isoformat
from mailwright.domain.errors import InvalidInput
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.sources.articles.assembly import Slice
from mailwright.sources.articles.slice_input import FIELDS, SliceRefused, parse_slice

DELIMITER: Final = "---"
MAX_FILE_BYTES: Final = 16 * 1024 * 1024
MAX_PROBLEMS: Final = 20
_NOT_IN_FILE_NAMES: Final = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class ParsedSlice:
    """A slice, and the file and line it was read from."""

    file: str
    line: int
    slice: Slice


@dataclass(frozen=True, slots=True)
class FileProblem:
    """An error in a file, with its line."""

    file: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}: {self.message}"


class FilesRefused(InvalidInput):
    """The files contain errors; nothing was imported."""

    code = "FILES_REFUSED"

    def __init__(self, problems: Sequence[FileProblem]) -> None:
        lines = [str(each) for each in problems[:MAX_PROBLEMS]]
        if len(problems) > MAX_PROBLEMS:
            lines.append(f"and {len(problems) - MAX_PROBLEMS} more")
        super().__init__("\n".join(["nothing was imported:", *lines]))
        self.problems = tuple(problems)


def read(path: Path) -> list[ParsedSlice]:
    """Read a folder of `.md` files, one `.md` file or a `.csv` file. Raises `FilesRefused` with all errors."""
    if path.is_dir():
        return read_texts((file.relative_to(path).as_posix(), _text(file)) for file in sorted(path.rglob("*.md")))
    return read_texts([(path.name, _text(path))])


def read_texts(files: Iterable[tuple[str, str]]) -> list[ParsedSlice]:
    """Read files by extension: a `.csv` holds many slices, any other file holds one."""
    parsed: list[ParsedSlice] = []
    problems: list[FileProblem] = []
    positions: dict[tuple[Any, ...], str] = {}
    has_any = False
    for name, text in files:
        has_any = True
        parts = _csv_lines(name, text) if name.lower().endswith(".csv") else _markdown(name, text)
        for part in parts:
            if isinstance(part, FileProblem):
                problems.append(part)
                continue
            where, piece = f"{name}, line {part.line}", part.slice
            position = (piece.article_key, piece.section_order, piece.scope_ocd_id, piece.sort_index)
            if (first := positions.setdefault(position, where)) != where:
                message = f"has the same position as {first}: use another sort_index"
                problems.append(FileProblem(name, part.line, message))
            parsed.append(part)
    if not has_any:
        raise InvalidInput("contains no .md file", field="path")
    if problems:
        raise FilesRefused(problems)
    return parsed


def as_csv(slices: Iterable[Slice]) -> str:
    """Return a CSV. Importing it again changes nothing."""
    out = io.StringIO()
    lines = csv.writer(out, lineterminator="\n")
    lines.writerow(FIELDS)
    for each in slices:
        lines.writerow(["" if value is None else value for value in _fields(each).values()])
    return out.getvalue()


def as_markdown(slices: Iterable[Slice]) -> dict[str, str]:
    """Return the text of each Markdown file by its name, which contains the slice's position."""
    return {_file_name(each): _front_matter(each) for each in slices}


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise InvalidInput(
                "{name} is larger than {max_file_bytes} MB",
                field="path",
                name=path.name,
                max_file_bytes=MAX_FILE_BYTES // 1024**2,
            )
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InvalidInput(
            "{path} cannot be read: {strerror}", field="path", path=path, strerror=error.strerror
        ) from error
    except UnicodeDecodeError as error:
        raise InvalidInput("{path} is not UTF-8", field="path", path=path) from error


Parts = Iterator[ParsedSlice | FileProblem]


def _csv_lines(name: str, text: str) -> Parts:
    lines = csv.reader(io.StringIO(text, newline=""), strict=True, delimiter=_csv_delimiter(text))
    line = 1
    try:
        titles = [title.strip().lower() for title in next(lines, [])]
        if "article_key" not in titles:
            names = ", ".join(FIELDS)
            message = f"the first line must name the columns, separated by commas, semicolons or tabs: {names}"
            yield FileProblem(name, 1, message)
            return
        line = lines.line_num + 1
        for cells in lines:
            if any(cell.strip() for cell in cells):
                yield _csv_slice(name, line, titles, cells)
            line = lines.line_num + 1
    except csv.Error as error:
        yield FileProblem(name, line, f"is not valid CSV: {error}")


def _csv_delimiter(text: str) -> str:
    """Return the delimiter with which the first line has a column `article_key`; a comma if none does."""
    first = text.partition("\n")[0].lower()
    for delimiter in ",;\t":
        if "article_key" in [title.strip() for title in next(csv.reader([first], delimiter=delimiter), [])]:
            return delimiter
    return ","


def _csv_slice(name: str, line: int, titles: Sequence[str], cells: Sequence[str]) -> ParsedSlice | FileProblem:
    if len(cells) > len(titles):
        return FileProblem(name, line, f"has {len(cells)} cells but there are {len(titles)} columns")
    given = {title: cell for title, cell in zip(titles, cells, strict=False) if title}
    try:
        return ParsedSlice(name, line, parse_slice(given))
    except SliceRefused as error:
        return FileProblem(name, line, str(error))


def _markdown(name: str, text: str) -> Parts:
    lines = text.replace("\r\n", "\n").split("\n")
    end = next((number for number, line in enumerate(lines[1:], 1) if line.rstrip() == DELIMITER), None)
    if lines[0].rstrip() != DELIMITER or end is None:
        yield FileProblem(name, 1, f"must begin with front matter between two lines of {DELIMITER}")
        return
    try:
        given = yaml.safe_load("\n".join(lines[1:end])) or {}
    except (yaml.YAMLError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        line = 2 if mark is None else mark.line + 2
        yield FileProblem(name, line, f"the front matter is not valid YAML: {getattr(error, 'problem', None) or error}")
        return
    if not isinstance(given, dict):
        yield FileProblem(name, 2, "the front matter must be a list of names and values")
        return
    if "body_md" in given:
        yield FileProblem(name, 2, "body_md: must be below the front matter, not in it")
        return
    try:
        yield ParsedSlice(name, 1, parse_slice({**given, "body_md": "\n".join(lines[end + 1 :])}))
    except SliceRefused as error:
        for each in error.problems:
            yield FileProblem(name, _line_of(lines[:end], each.field), f"{each.field}: {each.message}")


def _line_of(front: Sequence[str], field: str) -> int:
    return next((number for number, line in enumerate(front, 1) if line.partition(":")[0].strip() == field), 1)


def _fields(each: Slice) -> dict[str, Any]:
    return {
        **{name: getattr(each, name) for name in FIELDS},
        "is_headline": "true" if each.is_headline else "false",
        "tags": ",".join(each.tags) or None,
        "publish_status": each.publish_status.value,
        "publish_at": isoformat(each.publish_at),
        "expires_at": isoformat(each.expires_at),
    }


def _front_matter(each: Slice) -> str:
    fields = {name: value for name, value in _fields(each).items() if value is not None and name != "body_md"}
    fields |= {"is_headline": each.is_headline, **({"tags": list(each.tags)} if each.tags else {})}
    front = yaml.safe_dump(fields, allow_unicode=True, sort_keys=False, width=1_000)
    return f"{DELIMITER}\n{front}{DELIMITER}\n\n{each.body_md}\n"


def _file_name(each: Slice) -> str:
    scope = _NOT_IN_FILE_NAMES.sub("-", (each.scope_ocd_id or "everyone").removeprefix("ocd-division/")).strip("-")
    return f"{each.article_key}/{each.section_order:02d}-{scope}-{each.sort_index}.md"
