"""A Notion stand-in: it validates headers, bodies and sizes, and returns only pages that are shared.

async with NotionStandIn() as notion:
    mailouts = notion.add_database("Mailouts", MAILOUT_COLUMNS)
    page = notion.add_page(mailouts, {"Name": "March", "Test": True}, blocks=[said("paragraph", "Hello")])
    notion.answer(busy(429, seconds=2), times=1)
    ...
    assert notion.cells(page)["Status"] == "Send"
"""

import asyncio
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote

from mailwright.domain.clock import Clock, Instant
from tests.notion_pages import ERROR_COLUMNS, MAILOUT_COLUMNS, PIXEL, a_newsletter, said, text
from tests.standins.http import Answer, HttpStandIn, Request, json_answer
from tests.standins.options import StandInOptions

TOKEN = "ntn_stand-in-not-a-secret"
VERSIONS = ("2025-09-03", "2026-03-11")
MADE = "2027-01-15T08:00:00.000Z"
# The setting for each table of a rehearsal.
SETTINGS = {"Mailouts": "NOTION_DB_MAILOUTS", "Errors": "NOTION_DB_ERRORS"}

MOST_PER_PAGE = 100
MOST_ROWS = 10_000
LONGEST_TEXT = 2_000
MOST_PIECES = 100
MOST_BODY_BYTES = 500 * 1024

_ID = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")
_ROUTE = re.compile(r"/v1/(pages|databases|data_sources|blocks|users)(?:/([^/]+))?(?:/(query|children))?")

Described = dict[str, Any]


def error(status: int, code: str, message: str, **headers: str) -> Answer:
    """Return an error in the format of Notion's API."""
    return json_answer(
        status,
        {"object": "error", "status": status, "code": code, "message": message, "request_id": "b0b0-request"},
        **headers,
    )


def busy(status: int = 429, *, seconds: int | None = 1) -> Answer:
    code = {429: "rate_limited", 529: "service_overload"}[status]
    return error(status, code, "Please slow down.", **({} if seconds is None else {"Retry_After": str(seconds)}))


class _Refused(Exception):
    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.answer = error(status, code, message)


def _invalid(message: str) -> _Refused:
    return _Refused(400, "validation_error", message)


@dataclass(slots=True)
class _Table:
    id: str
    name: str
    database_id: str
    columns: dict[str, tuple[str, tuple[str, ...]]]  # The type and the options.


@dataclass(slots=True)
class _Row:
    id: str
    table_id: str | None
    values: dict[str, Any]  # By column, in the JSON of Notion's API.
    is_in_trash: bool = False
    public_url: str | None = None
    edits: int = 0  # Each is a minute later than the previous one.

    @property
    def edited_at(self) -> str:
        return MADE if not self.edits else f"2027-01-{1 + self.edits // 60:02}T00:{self.edits % 60:02}:00.000Z"


@dataclass(slots=True)
class _Kept:
    """A block and the IDs of its children."""

    described: Described
    inside: list[str] = field(default_factory=list)


class NotionStandIn(HttpStandIn):
    def __init__(self, *, token: str = TOKEN, clock: Clock | None = None, **options: Any) -> None:
        """With a clock, answer 429 to more than three requests within a second."""
        super().__init__(**options)
        self.token = token
        self.created: list[str] = []  # The requested rows, in the order of the requests.
        self.updates: list[tuple[str, dict[str, Any]]] = []
        self.too_fast = 0
        self._clock = clock
        self._came: list[Instant] = []
        self._numbers = count(1)
        self._databases: dict[str, list[str]] = {}
        self._tables: dict[str, _Table] = {}
        self._rows: dict[str, _Row] = {}
        self._blocks: dict[str, _Kept] = {}
        self._hidden: set[str] = set()
        self._files: dict[str, tuple[bytes, str]] = {}

    # Methods that add test data.

    def add_database(self, name: str, columns: Mapping[str, Any], *, sources: Sequence[str] = ()) -> str:
        """Add a database. Each column is a type, or a type and its options; `sources` names several data sources."""
        database = self._id()
        self._databases[database] = []
        known = {
            column: (kind, ()) if isinstance(kind, str) else (kind[0], tuple(kind[1]))
            for column, kind in columns.items()
        }
        for source in sources or (name,):
            table = _Table(self._id(), source, database, dict(known))
            self._tables[table.id] = table
            self._databases[database].append(table.id)
        return database

    def add_page(
        self,
        database: str | None = None,
        cells: Mapping[str, Any] | None = None,
        *,
        blocks: Sequence[Described] = (),
        public_url: str | None = None,
        page_id: str | None = None,
    ) -> str:
        """Add a page. `cells` are plain values; a page without a database has a title only."""
        page = page_id or self._id()
        table = self._tables[self._databases[database][0]] if database else None
        columns = table.columns if table else {"title": ("title", ())}
        values = {name: _empty(kind) for name, (kind, _) in columns.items()}
        for name, cell in (cells or {}).items():
            values[name] = _cell(columns[name][0], cell)
        self._rows[page] = _Row(page, table.id if table else None, values, public_url=public_url)
        self._blocks[page] = _Kept({}, self._keep(blocks))
        return page

    def children_of(self, page_or_block: str) -> list[str]:
        """Return the ids of the blocks directly inside a page or a block."""
        return list(self._blocks[page_or_block].inside)

    def add_blocks(self, inside: str, blocks: Sequence[Described]) -> list[str]:
        """Append blocks to a page or a block, and return their IDs."""
        made = self._keep(blocks)
        self._blocks[inside].inside += made
        if inside in self._rows:
            self._rows[inside].edits += 1
        return made

    def add_file(self, content: bytes = PIXEL, media_type: str = "image/png") -> str:
        """Store a file under a URL whose signature is valid for an hour, like Notion."""
        path = f"/files/{self._id()}/picture"
        self._files[path] = (content, media_type)
        return f"{self.url}{path}?X-Amz-Expires=3600&X-Amz-Signature=stand-in"

    def hide(self, some_id: str) -> None:
        """Stop sharing a page with the integration."""
        self._hidden.add(some_id)

    def show(self, some_id: str) -> None:
        self._hidden.discard(some_id)

    def trash(self, page: str) -> None:
        self._rows[page].is_in_trash = True

    def restore(self, page: str) -> None:
        self._rows[page].is_in_trash = False

    def set_cell(self, page: str, name: str, cell: Any) -> None:
        row = self._rows[page]
        columns = self._tables[row.table_id].columns if row.table_id else {"title": ("title", ())}
        row.values[name] = _cell(columns[name][0], cell)
        row.edits += 1

    def remove_column(self, database: str, name: str) -> None:
        for table in self._databases[database]:
            self._tables[table].columns.pop(name)
        for row in self._rows.values():
            if row.table_id in self._databases[database]:
                row.values.pop(name, None)

    def load(self, seed: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Databases and pages from a file: `{"databases": {name: columns}, "pages": [{database, cells, blocks}]}`; the
        id of each, with the setting or the word for it."""
        made = {name: self.add_database(name, columns) for name, columns in seed.get("databases", {}).items()}
        for name, database in made.items():
            yield SETTINGS.get(name, f"a table {name}"), database
        for page in seed.get("pages", []):
            cells = page.get("cells") or {}
            added = self.add_page(
                made.get(page.get("database")), cells, blocks=page.get("blocks", ()), page_id=page.get("id")
            )
            yield f"a page {next(iter(cells.values()), '')}".rstrip(), added

    # Methods that return stored data.

    def cells(self, page: str) -> dict[str, Any]:
        """Return the plain values of a page by column."""
        row = self._rows[page]
        columns = self._tables[row.table_id].columns if row.table_id else {"title": ("title", ())}
        return {name: _plain(columns[name][0], value) for name, value in row.values.items()}

    def rows(self, database: str) -> list[dict[str, Any]]:
        """Return the rows of a database in the order of creation."""
        return [self.cells(row.id) for row in self._rows.values() if row.table_id in self._databases[database]]

    def source_of(self, database: str) -> str:
        return self._databases[database][0]

    # Answers.

    def usual(self, request: Request) -> Answer:
        if request.path in self._files:
            content, media_type = self._files[request.path]
            return Answer(200, content, {"Content-Type": media_type})
        try:
            return self._answered(request)
        except _Refused as refused:
            return refused.answer

    def _answered(self, request: Request) -> Answer:
        route = _ROUTE.fullmatch(request.path)
        if route is None:
            raise _Refused(400, "invalid_request_url", "Invalid request URL.")
        if request.headers.get("Authorization") != f"Bearer {self.token}":
            raise _Refused(401, "unauthorized", "API token is invalid.")
        version = request.headers.get("Notion-Version")
        if version is None:
            raise _Refused(400, "missing_version", "Notion-Version header should be defined.")
        if version not in VERSIONS:
            raise _invalid(f"Notion-Version header should be one of {VERSIONS}, instead was {version!r}.")
        if self._is_too_fast():
            self.too_fast += 1
            return busy(429)
        found = self._found(request, *route.groups())
        if found["object"] != "list" and version == VERSIONS[0] and "in_trash" in found:
            found = {**found, "archived": found["in_trash"]}
        return json_answer(200, {**found, "request_id": "b0b0-request"})

    def _found(self, request: Request, kind: str, named: str | None, action: str | None) -> Described:
        match request.method, kind, action:
            case "GET", "users", None if named == "me":
                return {"object": "user", "id": self._fixed("f1"), "type": "bot", "name": "Stand-in", "bot": {}}
            case "GET", "pages", None if named:
                _asked(request, {"filter_properties"})
                return self._page(self._row(named))
            case "PATCH", "pages", None if named:
                return self._update(self._row(named), _body(request, {"properties", "in_trash", "icon", "cover"}))
            case "POST", "pages", None if named is None:
                return self._create(_body(request, {"parent", "properties", "children", "icon", "cover"}))
            case "GET", "databases", None if named:
                return self._database(_normal(named))
            case "GET", "data_sources", None if named:
                return self._source(self._table(named))
            case "POST", "data_sources", "query" if named:
                keys = {"filter", "sorts", "start_cursor", "page_size", "in_trash", "archived", "result_type"}
                return self._query(self._table(named), _body(request, keys))
            case "GET", "blocks", None if named:
                return self._kept(named).described
            case "GET", "blocks", "children" if named:
                return self._children(named, _asked(request, {"page_size", "start_cursor"}))
            case _:
                raise _Refused(400, "invalid_request_url", "Invalid request URL.")

    def _page(self, row: _Row) -> Described:
        columns = self._tables[row.table_id].columns if row.table_id else {"title": ("title", ())}
        table = self._tables.get(row.table_id or "")
        parent = (
            {"type": "data_source_id", "data_source_id": table.id, "database_id": table.database_id}
            if table
            else {"type": "workspace", "workspace": True}
        )
        return {
            "object": "page",
            "id": row.id,
            "created_time": MADE,
            "last_edited_time": row.edited_at,
            "created_by": {"object": "user", "id": self._fixed("f1")},
            "last_edited_by": {"object": "user", "id": self._fixed("f1")},
            "cover": None,
            "icon": None,
            "parent": parent,
            "in_trash": row.is_in_trash,
            "properties": {
                name: {"id": _short(name, columns[name][0]), "type": columns[name][0], columns[name][0]: value}
                for name, value in row.values.items()
            },
            "url": f"https://app.notion.com/p/{row.id.replace('-', '')}",
            "public_url": row.public_url,
        }

    def _database(self, database: str) -> Described:
        if database in self._rows:
            raise _invalid(f"Provided ID {database} is a page, not a database. Use the retrieve page API instead.")
        if database not in self._databases or database in self._hidden:
            raise _missing("database", database)
        sources = [self._tables[each] for each in self._databases[database]]
        return {
            "object": "database",
            "id": database,
            "title": [text(sources[0].name)],
            "parent": {"type": "workspace", "workspace": True},
            "in_trash": False,
            "data_sources": [{"id": each.id, "name": each.name} for each in sources],
        }

    def _source(self, table: _Table) -> Described:
        return {
            "object": "data_source",
            "id": table.id,
            "title": [text(table.name)],
            "parent": {"type": "database_id", "database_id": table.database_id},
            "in_trash": False,
            "properties": {
                name: {"id": _short(name, kind), "name": name, "type": kind, kind: _schema(kind, options)}
                for name, (kind, options) in table.columns.items()
            },
        }

    def _query(self, table: _Table, body: Described) -> Described:
        rows = [row for row in self._rows.values() if row.table_id == table.id and not row.is_in_trash]
        if (condition := body.get("filter")) is not None:
            rows = [row for row in rows if _fits(row, condition, table)]
        for sort in reversed(_sorts(body, table)):
            rows.sort(
                key=lambda row: _order(row.values.get(sort["property"])), reverse=sort["direction"] == "descending"
            )
        page = _paged([row.id for row in rows[:MOST_ROWS]], body.get("page_size"), body.get("start_cursor"))
        return {
            "object": "list",
            **page,
            "results": [self._page(self._rows[each]) for each in page["results"]],
            "type": "page_or_data_source",
            "page_or_data_source": {},
        }

    def _children(self, named: str, asked: Mapping[str, str]) -> Described:
        size = asked.get("page_size")
        page = _paged(
            self._kept(named).inside, int(size) if size and size.isdigit() else size, asked.get("start_cursor")
        )
        return {
            "object": "list",
            **page,
            "results": [self._kept(each).described for each in page["results"]],
            "type": "block",
            "block": {},
        }

    def _create(self, body: Described) -> Described:
        parent = body.get("parent")
        if not isinstance(parent, dict) or not isinstance(parent.get("data_source_id"), str):
            raise _invalid(
                "body failed validation: body.parent.data_source_id should be defined, instead was `undefined`."
            )
        table = self._table(parent["data_source_id"])
        row = _Row(self._id(), table.id, {name: _empty(kind) for name, (kind, _) in table.columns.items()})
        row.values |= _checked(body.get("properties"), table.columns)
        self._rows[row.id] = row
        self._blocks[row.id] = _Kept({}, [])
        self.created.append(row.id)
        return self._page(row)

    def _update(self, row: _Row, body: Described) -> Described:
        if row.is_in_trash and body.get("in_trash") is not False:
            raise _invalid("Can't edit page on block with an archived ancestor. You must unarchive it first.")
        columns = self._tables[row.table_id].columns if row.table_id else {"title": ("title", ())}
        values = _checked(body.get("properties", {}), columns)
        row.values |= values
        row.edits += 1
        self.updates.append((row.id, values))
        return self._page(row)

    # The details.

    def _id(self) -> str:
        return self._fixed(f"{next(self._numbers):x}")

    @staticmethod
    def _fixed(ending: str) -> str:
        return f"b0b00000-0000-4000-8000-{ending:>012}"

    def _keep(self, blocks: Sequence[Described]) -> list[str]:
        made = []
        for each in blocks:
            block = each.get("id") or self._id()
            inside = self._keep(each.get("children", ()))
            described = {
                "object": "block",
                "id": block,
                "created_time": MADE,
                "last_edited_time": MADE,
                "has_children": bool(inside) or bool(each.get("has_children")),
                "in_trash": False,
                "type": each["type"],
                each["type"]: each[each["type"]],
            }
            self._blocks[block] = _Kept(described, inside)
            made.append(block)
        return made

    def _row(self, named: str) -> _Row:
        page = _normal(named)
        if page in self._databases:
            raise _invalid(f"Provided ID {page} is a database, not a page. Use the retrieve database API instead.")
        if page not in self._rows or page in self._hidden:
            raise _missing("page", page)
        return self._rows[page]

    def _table(self, named: str) -> _Table:
        table = self._tables.get(_normal(named))
        if table is None or {table.id, table.database_id} & self._hidden:
            raise _missing("data_source", named)
        return table

    def _kept(self, named: str) -> _Kept:
        block = _normal(named)
        if block not in self._blocks or block in self._hidden:
            raise _missing("block", block)
        return self._blocks[block]

    def _is_too_fast(self) -> bool:
        if self._clock is None:
            return False
        now = self._clock.now()
        self._came = [each for each in self._came if now - each < 1000]
        if len(self._came) >= 3:
            return True
        self._came.append(now)
        return False


def _normal(named: str) -> str:
    named = unquote(named).lower()
    if not _ID.fullmatch(named):
        raise _invalid(f'path failed validation: path.id should be a valid uuid, instead was `"{named}"`.')
    bare = named.replace("-", "")
    return f"{bare[:8]}-{bare[8:12]}-{bare[12:16]}-{bare[16:20]}-{bare[20:]}"


def _missing(kind: str, named: str) -> _Refused:
    return _Refused(
        404,
        "object_not_found",
        f"Could not find {kind} with ID: {named}. Make sure the relevant pages and databases are shared with your "
        "integration.",
    )


def _asked(request: Request, known: set[str]) -> dict[str, str]:
    asked = dict(parse_qsl(request.query, keep_blank_values=True))
    if strange := set(asked) - known:
        raise _invalid(f"query failed validation: query.{min(strange)} should be not present.")
    return asked


def _body(request: Request, known: set[str]) -> Described:
    if request.headers.get("Content-Type", "").partition(";")[0] != "application/json":
        raise _Refused(400, "invalid_json", "Error parsing JSON body.")
    if len(request.body) > MOST_BODY_BYTES:
        raise _invalid("body failed validation: body is too large.")
    try:
        body = json.loads(request.body)
    except ValueError as broken:
        raise _Refused(400, "invalid_json", "Error parsing JSON body.") from broken
    if not isinstance(body, dict):
        raise _invalid("body failed validation: body should be an object.")
    if strange := set(body) - known:
        raise _invalid(f"body failed validation: body.{min(strange)} should be not present.")
    return body


def _paged(ids: Sequence[str], size: Any, cursor: Any) -> Described:
    size = MOST_PER_PAGE if size is None else size
    if not isinstance(size, int) or isinstance(size, bool) or not 1 <= size <= MOST_PER_PAGE:
        raise _invalid(f"page_size should be a number between 1 and 100, instead was `{size}`.")
    if cursor is not None and cursor not in ids:
        raise _invalid(f"The start_cursor provided is invalid: {cursor}")
    start = ids.index(cursor) if cursor else 0
    rest = ids[start + size :]
    return {
        "results": list(ids[start : start + size]),
        "next_cursor": rest[0] if rest else None,
        "has_more": bool(rest),
    }


# Cells.


def _short(name: str, kind: str) -> str:
    return "title" if kind == "title" else f"%{len(name):02x}{ord(name[0]):02x}"


def _schema(kind: str, options: Sequence[str]) -> Described:
    if kind not in ("select", "status", "multi_select"):
        return {}
    return {"options": [{"id": str(place), "name": name, "color": "default"} for place, name in enumerate(options)]}


def _empty(kind: str) -> Any:
    return {"title": [], "rich_text": [], "checkbox": False, "multi_select": [], "files": []}.get(kind)


def _cell(kind: str, value: Any) -> Any:
    """Return a plain value in the JSON of Notion's API."""
    match kind:
        case "title" | "rich_text":
            return [text(value)] if value else []
        case "select" | "status":
            return None if value is None else {"id": "1", "name": value, "color": "default"}
        case "date":
            return None if value is None else {"start": value, "end": None, "time_zone": None}
        case _:
            return value


def _plain(kind: str, value: Any) -> Any:
    match kind:
        case "title" | "rich_text":
            return "".join(piece["plain_text"] for piece in value)
        case "select" | "status":
            return value["name"] if value else None
        case "date":
            return value["start"] if value else None
        case _:
            return value


def _checked(properties: Any, columns: Mapping[str, tuple[str, tuple[str, ...]]]) -> dict[str, Any]:
    if not isinstance(properties, dict):
        raise _invalid("body failed validation: body.properties should be an object.")
    return {name: _taken(name, value, columns) for name, value in properties.items()}


def _taken(name: str, value: Any, columns: Mapping[str, tuple[str, tuple[str, ...]]]) -> Any:
    if name not in columns:
        raise _invalid(f"{name} is not a property that exists.")
    kind, options = columns[name]
    if not isinstance(value, dict) or set(value) - {"id", "type"} != {kind}:
        raise _invalid(f"{name} is expected to be {kind}.")
    inner = value[kind]
    complaint = _COMPLAINTS.get(kind, lambda _inner, _options: "which cannot be written")(inner, options)
    if complaint:
        raise _invalid(f"body failed validation: body.properties.{name}.{kind} {complaint}.")
    match kind:
        case "title" | "rich_text":
            return [text(piece["text"]["content"]) for piece in inner]
        case "select" | "status":
            return None if inner is None else {"id": "1", "name": inner["name"], "color": "default"}
        case "date":
            return (
                None
                if inner is None
                else {"end": None, "time_zone": None, **inner, "start": _to_the_minute(inner["start"])}
            )
        case _:
            return inner


def _to_the_minute(start: str) -> str:
    """Drop the seconds, because Notion accepts them but does not return them."""
    return re.sub(r"(T\d\d:\d\d)(?::\d\d(?:\.\d+)?)?(?:Z|\+00:00)?$", r"\1:00.000+00:00", start)


def _text_complaint(inner: Any, _options: Sequence[str]) -> str | None:
    if not isinstance(inner, list) or len(inner) > MOST_PIECES:
        return f"should be an array of at most {MOST_PIECES}"
    for piece in inner:
        content = piece.get("text", {}).get("content") if isinstance(piece, dict) else None
        if not isinstance(content, str):
            return "should be pieces of text"
        if len(content.encode("utf-16-le")) // 2 > LONGEST_TEXT:
            return f"text.content.length should be ≤ `{LONGEST_TEXT}`"
    return None


def _option_complaint(inner: Any, _options: Sequence[str]) -> str | None:
    if inner is None or (isinstance(inner, dict) and isinstance(inner.get("name"), str) and "," not in inner["name"]):
        return None
    return "should be an option by name, without commas"


def _status_complaint(inner: Any, options: Sequence[str]) -> str | None:
    if complaint := _option_complaint(inner, options):
        return complaint
    if inner is not None and inner["name"] not in options:
        return f'has no option: Status option "{inner["name"]}" does not exist'
    return None


def _date_complaint(inner: Any, _options: Sequence[str]) -> str | None:
    start = inner.get("start") if isinstance(inner, dict) else None
    is_date = isinstance(start, str) and re.fullmatch(
        r"\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?)?", start
    )
    return None if inner is None or is_date else "should be a valid ISO 8601 date"


def _short_complaint(longest: int) -> Callable[[Any, Sequence[str]], str | None]:
    return lambda inner, _options: (
        None
        if inner is None or (isinstance(inner, str) and 0 < len(inner) <= longest)
        else f"should be a text of 1 to {longest} characters"
    )


_COMPLAINTS: Mapping[str, Callable[[Any, Sequence[str]], str | None]] = {
    "title": _text_complaint,
    "rich_text": _text_complaint,
    "number": lambda inner, _: (
        None
        if inner is None or (isinstance(inner, int | float) and not isinstance(inner, bool))
        else "should be a number"
    ),
    "checkbox": lambda inner, _: None if isinstance(inner, bool) else "should be a boolean",
    "select": _option_complaint,
    "status": _status_complaint,
    "date": _date_complaint,
    "email": _short_complaint(200),
    "url": _short_complaint(2_000),
}


# The filters that Mailwright uses.


def _fits(row: _Row, condition: Any, table: _Table) -> bool:
    if not isinstance(condition, dict):
        raise _invalid("body failed validation: body.filter should be an object.")
    if "and" in condition:
        return all(_fits(row, each, table) for each in condition["and"])
    if "or" in condition:
        return any(_fits(row, each, table) for each in condition["or"])
    name = condition.get("property")
    if name not in table.columns:
        raise _invalid(f"Could not find property with name or id: {name}")
    kind = table.columns[name][0]
    if set(condition) != {"property", kind}:
        raise _invalid(
            f"database property {kind} does not match filter {min(set(condition) - {'property'}, default='')}"
        )
    value = _plain(kind, row.values.get(name))
    return all(_holds(value, test, wanted) for test, wanted in condition[kind].items())


def _holds(value: Any, test: str, wanted: Any) -> bool:
    match test:
        case "equals":
            return bool(value == wanted)
        case "does_not_equal":
            return bool(value != wanted)
        case "contains":
            return wanted in (value or "")
        case "starts_with":
            return (value or "").startswith(wanted)
        case "is_empty":
            return value in (None, "", [])
        case "is_not_empty":
            return value not in (None, "", [])
        case _:
            raise _invalid(f"body failed validation: body.filter.{test} should be not present.")


def _sorts(body: Described, table: _Table) -> list[Described]:
    sorts: list[Described] = body.get("sorts", [])
    for sort in sorts:
        if sort.get("property") not in table.columns or sort.get("direction") not in ("ascending", "descending"):
            raise _invalid("body failed validation: body.sorts should name a property and a direction.")
    return sorts


def _order(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


# Rehearsals.


def sample(api: NotionStandIn) -> Iterator[tuple[str, str]]:
    """The tables, and a page for each way to send one; each with the setting or the word for it."""
    mailouts = api.add_database("Mailouts", MAILOUT_COLUMNS)
    yield SETTINGS["Mailouts"], mailouts
    yield SETTINGS["Errors"], api.add_database("Errors", ERROR_COLUMNS)
    march = {"Name": "March", "Subject": "What the harbour did in March", "Status": "Draft"}
    yield "a page to send", api.add_page(mailouts, march, blocks=a_newsletter(api.add_file()))
    trial = {"Name": "Trial", "Subject": "A trial", "Status": "Draft", "Test": True}
    yield "a page for a test", api.add_page(mailouts, trial, blocks=[said("paragraph", "Is this thing on?")])
    april = {"Name": "April", "Subject": "What the harbour will do in April", "Status": "Ready"}
    yield "a page for `watch`", api.add_page(mailouts, april, blocks=[said("paragraph", "It will open at six.")])


async def serve(host: str, port: int, asked: StandInOptions) -> None:
    async with NotionStandIn(host=host, port=port) as api:
        if asked.fail is not None:
            api.answer(error(asked.fail, "service_unavailable", "As asked."), times=asked.times)
        print(f"Notion stands in at {api.url}. Set:")
        print(f"  export MAILWRIGHT_NOTION_URL={api.url} NOTION_TOKEN={TOKEN}")
        seed = None if asked.seed is None else json.loads(Path(asked.seed).read_text(encoding="utf-8"))
        for name, value in sample(api) if seed is None else api.load(seed):
            print(f"  export {name}={value}" if name in SETTINGS.values() else f"There is {name}: {value}")
        print(flush=True)
        await asyncio.Event().wait()
