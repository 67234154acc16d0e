"""Properties: cells of Notion's tables under the names that people gave them, read and written in their own type."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mailwright.sources.mailouts.notion.errors import NotionRefused
from mailwright.sources.mailouts.notion.pages import DataSource, NotionPage

# Times are written as text, as `isoformat` makes it; nothing empties the cell.
Cell = str | int | float | bool | None

# Notion takes 2,000 characters a piece and 100 pieces; what is longer would be refused as a whole.
MAX_PIECE_LENGTH = 2_000
MAX_PIECES = 100
MAX_ADDRESS_LENGTH = 200
MAX_URL_LENGTH = 2_000


@dataclass(frozen=True, slots=True)
class MailoutColumns:
    """What the columns of the mailouts table are called."""

    subject: str = "Subject"
    status: str = "Status"
    test: str = "Test"
    sent_at: str = "Sent At"
    sent_count: str = "Sent Count"
    failed_count: str = "Failed Count"
    delivered_count: str = "Delivered Count"
    bounce_rate: str = "Bounce Rate"
    unsub_rate: str = "Unsub Rate"


@dataclass(frozen=True, slots=True)
class ErrorColumns:
    """What the columns of the errors table are called."""

    name: str = "Name"
    timestamp: str = "Timestamp"
    mailout_id: str = "Mailout ID"
    is_test: str = "Is Test"
    provider: str = "Provider"
    stage: str = "Stage"
    email: str = "Email"
    error_code: str = "Error Code"
    error_message: str = "Error Message"
    retry_count: str = "Retry Count"


@dataclass(frozen=True, slots=True)
class MailoutPage:
    """What a page says of itself before its content is looked at. `lacking` are columns that it does not have."""

    page_id: str
    subject: str
    status: str | None
    is_test: bool
    sent_at: str | None
    lacking: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PropertyUpdate:
    """What goes to Notion, and for each cell that does not, by column, a sentence that says why."""

    properties: Mapping[str, Mapping[str, Any]]
    skipped: Mapping[str, str]


def read_mailout(page: NotionPage, names: MailoutColumns) -> MailoutPage:
    """A page without a subject column has its title for a subject; an empty subject is empty, whatever the title."""
    here = page.properties
    title = next((name for name, each in here.items() if each.get("type") == "title"), names.subject)
    asked = (names.status, names.test, names.sent_at)
    return MailoutPage(
        page.id,
        subject=" ".join(_text(here, names.subject if names.subject in here else title).split()),
        status=_option(here, names.status),
        is_test=_checkbox(here, names.test),
        sent_at=_date(here, names.sent_at),
        lacking=tuple(name for name in asked if name not in here),
    )


def build_properties(source: DataSource, cells: Mapping[str, Cell]) -> PropertyUpdate:
    """A column that the table lacks, or whose type cannot hold the value, is skipped; the others are written."""
    properties: dict[str, Mapping[str, Any]] = {}
    skipped: dict[str, str] = {}
    for name, cell in cells.items():
        kind = source.types.get(name)
        if kind is None:
            skipped[name] = f"The table {source.name!r} in Notion has no property {name!r}: add it, or set its name."
        elif kind not in _WRITERS:
            skipped[name] = f"The property {name!r} in Notion is of the type {kind}, which cannot be written."
        elif kind == "status" and cell is not None and _offered(source, name, str(cell)) is None:
            skipped[name] = f"The status {name!r} in Notion has no option {cell!r}: add it under Edit property."
        elif (value := _WRITERS[kind](_offered(source, name, cell))) is _UNFIT:
            skipped[name] = f"The property {name!r} in Notion is of the type {kind}, which does not fit: change it."
        else:
            properties[name] = {kind: value}
    return PropertyUpdate(properties, skipped)


def plain(rich_text: object) -> str:
    """The words of a text in pieces, without their looks."""
    pieces = rich_text if isinstance(rich_text, list) else []
    return "".join(str(piece.get("plain_text") or "") for piece in pieces if isinstance(piece, Mapping))


# Reading.


def _text(here: Mapping[str, Mapping[str, Any]], name: str) -> str:
    match _value(here, name):
        case None:
            return ""
        case ("title" | "rich_text", pieces):
            return plain(pieces)
        case ("string" | "select" | "status", None):
            return ""
        case ("string", str(words)) | ("select" | "status", {"name": str(words)}):
            return words
        case (kind, _):
            raise _wrong_type(name, kind, "a title or a text")


def _option(here: Mapping[str, Mapping[str, Any]], name: str) -> str | None:
    match _value(here, name):
        case None | ("status" | "select" | "string", None):
            return None
        case ("status" | "select", {"name": str(option)}) | ("string", str(option)):
            return option
        case (kind, _):
            raise _wrong_type(name, kind, "a status or a select")


def _checkbox(here: Mapping[str, Mapping[str, Any]], name: str) -> bool:
    match _value(here, name):
        case None:
            return False
        case ("checkbox" | "boolean", bool(is_checked)):
            return is_checked
        case (kind, _):
            # Taken for unchecked, a test would go to everybody.
            raise _wrong_type(name, kind, "a checkbox")


def _date(here: Mapping[str, Mapping[str, Any]], name: str) -> str | None:
    match _value(here, name):
        case None | ("date" | "string", None):
            return None
        case ("date", {"start": str(start)}):
            return start
        case ("rich_text", pieces):
            return plain(pieces).strip() or None
        case ("string", str(words)):
            return words or None
        case (kind, _):
            raise _wrong_type(name, kind, "a date")


def _value(here: Mapping[str, Mapping[str, Any]], name: str) -> tuple[str, Any] | None:
    """The type and the value; of a formula, those of its result."""
    found = here.get(name)
    if found is None:
        return None
    kind = str(found.get("type"))
    value = found.get(kind)
    if kind == "formula" and isinstance(value, Mapping):
        return str(value.get("type")), value.get(str(value.get("type")))
    return kind, value


def _wrong_type(name: str, kind: str, should_be: str) -> NotionRefused:
    return NotionRefused(
        f"The property {name!r} in Notion is of the type {kind}: make it {should_be}, or set the name of another one.",
        code="NOTION_PROPERTY_TYPE",
        field=name,
    )


# Writing.

_UNFIT = object()


def _offered(source: DataSource, name: str, cell: Cell) -> Cell:
    """The option as the table spells it: `send` is its `Send`."""
    options = source.options.get(name)
    if options is None or not isinstance(cell, str):
        return cell
    if cell in options:
        return cell
    alike = next((option for option in options if option.casefold() == cell.casefold()), None)
    # A select makes options that it does not have; a status refuses them.
    return alike or (None if source.types.get(name) == "status" else cell)


def _pieces(cell: Cell) -> list[dict[str, Any]]:
    text = "" if cell is None else str(cell)
    # In UTF-16 units, as Notion counts: half of an emoji is no text.
    longest = MAX_PIECE_LENGTH // 2 if any(ord(character) > 0xFFFF for character in text) else MAX_PIECE_LENGTH
    cut = [text[at : at + longest] for at in range(0, len(text), longest)]
    return [{"type": "text", "text": {"content": piece}} for piece in cut[:MAX_PIECES]]


def _number(cell: Cell) -> object:
    return cell if cell is None or (isinstance(cell, int | float) and not isinstance(cell, bool)) else _UNFIT


def _short(longest: int) -> Callable[[Cell], object]:
    return lambda cell: None if cell is None or cell == "" else str(cell)[:longest]


def _named(cell: Cell) -> object:
    # A comma would make two options of a name.
    return None if cell is None or cell == "" else {"name": str(cell).replace(",", " ")[:100]}


_WRITERS: Mapping[str, Callable[[Cell], object]] = {
    "title": _pieces,
    "rich_text": _pieces,
    "number": _number,
    "checkbox": lambda cell: bool(cell) if cell is None or isinstance(cell, bool) else _UNFIT,
    "select": _named,
    "status": _named,
    "multi_select": lambda cell: [] if (option := _named(cell)) is None else [option],
    "date": lambda cell: None if cell is None else ({"start": cell} if isinstance(cell, str) else _UNFIT),
    "email": _short(MAX_ADDRESS_LENGTH),
    "phone_number": _short(MAX_ADDRESS_LENGTH),
    "url": _short(MAX_URL_LENGTH),
}
