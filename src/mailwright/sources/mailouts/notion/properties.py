"""Read and write the properties of Notion pages, under configurable names and in the type of each column."""

from collections.abc import Callable, Mapping
from typing import Any

from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.translation import lazy_gettext
from mailwright.sources.mailouts.notion.errors import NotionRefused
from mailwright.sources.mailouts.notion.pages import DataSource, NotionPage

# Times are ISO 8601 text. None clears the cell.
Cell = str | int | float | bool | None

# Notion accepts 100 pieces of 2,000 characters and refuses longer values as a whole.
MAX_PIECE_LENGTH = 2_000
MAX_PIECES = 100
MAX_ADDRESS_LENGTH = 200
MAX_URL_LENGTH = 2_000


@dataclass(frozen=True, slots=True)
class MailoutColumns:
    """The names of the columns of the mailouts table."""

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
    """The names of the columns of the errors table."""

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
    """The properties of a mailout page. `lacking` names columns that it does not have."""

    page_id: str
    subject: str
    status: str | None
    is_test: bool | None  # None if the page has no such property; the mailout is then refused
    sent_at: str | None
    lacking: tuple[str, ...] = ()
    sent_count: float | None = None  # None if it is not a number


@dataclass(frozen=True, slots=True)
class PropertyUpdate:
    """Properties to write, and the reason for each column that is skipped."""

    properties: Mapping[str, Mapping[str, Any]]
    skipped: Mapping[str, str]


def read_mailout(page: NotionPage, names: MailoutColumns) -> MailoutPage:
    """Read a mailout page. The title is the subject only if there is no subject column."""
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
        sent_count=_count(here, names.sent_count),
    )


def build_properties(source: DataSource, cells: Mapping[str, Cell]) -> PropertyUpdate:
    """Convert cells to properties, skipping columns that are missing or whose type does not fit."""
    properties: dict[str, Mapping[str, Any]] = {}
    skipped: dict[str, str] = {}
    for name, cell in cells.items():
        kind = source.types.get(name)
        if kind is None:
            skipped[name] = f"The table {source.name!r} in Notion has no property {name!r}. Add it, or set its name."
        elif kind not in _WRITERS:
            skipped[name] = f"The property {name!r} in Notion has the type {kind}, which is read-only."
        elif kind == "status" and cell is not None and _offered(source, name, str(cell)) is None:
            skipped[name] = f"The status {name!r} in Notion has no option {cell!r}. Add it under Edit property."
        elif (value := _WRITERS[kind](_offered(source, name, cell))) is _DOES_NOT_FIT:
            skipped[name] = f"The property {name!r} in Notion has the type {kind}, which does not fit. Change the type."
        else:
            properties[name] = {kind: value}
    return PropertyUpdate(properties, skipped)


def plain(rich_text: object) -> str:
    """Return the plain text of a rich text."""
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
            raise _wrong_type(name, kind, lazy_gettext("a title or a text"))


def _option(here: Mapping[str, Mapping[str, Any]], name: str) -> str | None:
    match _value(here, name):
        case None | ("status" | "select" | "string", None):
            return None
        case ("status" | "select", {"name": str(option)}) | ("string", str(option)):
            return option
        case (kind, _):
            raise _wrong_type(name, kind, lazy_gettext("a status or a select"))


def _checkbox(here: Mapping[str, Mapping[str, Any]], name: str) -> bool | None:
    match _value(here, name):
        case None:
            return None
        case ("checkbox" | "boolean", bool(is_checked)):
            return is_checked
        case (kind, _):
            # Never treat another type as unchecked, because a test would then go to the whole audience.
            raise _wrong_type(name, kind, lazy_gettext("a checkbox"))


def _count(here: Mapping[str, Mapping[str, Any]], name: str) -> float | None:
    match _value(here, name):
        case ("number", int() | float() as number):
            return float(number)
        case _:
            return None


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
            raise _wrong_type(name, kind, lazy_gettext("a date"))


def _value(here: Mapping[str, Mapping[str, Any]], name: str) -> tuple[str, Any] | None:
    """Return the type and the value; for a formula, those of its result."""
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
        "The property {name} in Notion has the type {kind}. Change it to {should_be}, or use another property.",
        code="NOTION_PROPERTY_TYPE",
        field=name,
        name=repr(name),
        kind=kind,
        should_be=should_be,
    )


# Writing.

_DOES_NOT_FIT = object()


def _offered(source: DataSource, name: str, cell: Cell) -> Cell:
    """Return the option in the spelling of the table: `Send` for `send`."""
    options = source.options.get(name)
    if options is None or not isinstance(cell, str):
        return cell
    if cell in options:
        return cell
    alike = next((option for option in options if option.casefold() == cell.casefold()), None)
    # A select creates missing options; a status refuses them.
    return alike or (None if source.types.get(name) == "status" else cell)


def _pieces(cell: Cell) -> list[dict[str, Any]]:
    text = "" if cell is None else str(cell)
    # Notion counts UTF-16 units, and an emoji must not be split.
    longest = MAX_PIECE_LENGTH // 2 if any(ord(character) > 0xFFFF for character in text) else MAX_PIECE_LENGTH
    cut = [text[at : at + longest] for at in range(0, len(text), longest)]
    return [{"type": "text", "text": {"content": piece}} for piece in cut[:MAX_PIECES]]


def _number(cell: Cell) -> object:
    return cell if cell is None or (isinstance(cell, int | float) and not isinstance(cell, bool)) else _DOES_NOT_FIT


def _short(longest: int) -> Callable[[Cell], object]:
    return lambda cell: None if cell is None or cell == "" else str(cell)[:longest]


def _named(cell: Cell) -> object:
    # Notion splits a name with a comma into two options.
    return None if cell is None or cell == "" else {"name": str(cell).replace(",", " ")[:100]}


_WRITERS: Mapping[str, Callable[[Cell], object]] = {
    "title": _pieces,
    "rich_text": _pieces,
    "number": _number,
    "checkbox": lambda cell: bool(cell) if cell is None or isinstance(cell, bool) else _DOES_NOT_FIT,
    "select": _named,
    "status": _named,
    "multi_select": lambda cell: [] if (option := _named(cell)) is None else [option],
    "date": lambda cell: None if cell is None else ({"start": cell} if isinstance(cell, str) else _DOES_NOT_FIT),
    "email": _short(MAX_ADDRESS_LENGTH),
    "phone_number": _short(MAX_ADDRESS_LENGTH),
    "url": _short(MAX_URL_LENGTH),
}
