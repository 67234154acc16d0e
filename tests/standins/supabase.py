"""A Supabase stand-in: the API of PostgREST for a few tables, with its row limit, keys and errors.

async with SupabaseStandIn() as supabase:
    supabase.add("subscribers", email="ada@example.com")
    supabase.answer(Answer(503), times=1)
    ...
    assert supabase.rows("subscribers")[0]["status"] == "bounced"

`postgrest=(12, 0)` refuses the preference `max-affected`, and `(11, 2)` ignores it, as these versions do.
"""

import asyncio
import json
import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import unquote_plus

from tests.standins.http import Answer, HttpStandIn, Request, json_answer
from tests.standins.options import StandInOptions, misbehave

BASE = "/rest/v1"
SECRET_KEY = "sb_secret_stand-in-not-a-secret"
PUBLISHABLE_KEY = "sb_publishable_stand-in"

SUBSCRIBERS: Mapping[str, Any] = {
    "email": None,
    "status": "active",
    "bounce_type": None,
    "bounce_subtype": None,
    "status_updated_at": None,
    "from_name": None,
}
SEND_LOGS: Mapping[str, Any] = {"mailout_id": None, "email": None, "status": None, "error_message": None}

RESERVED = frozenset({"select", "order", "limit", "offset", "columns", "on_conflict", "or", "and"})
PREFERENCES = re.compile(
    r"return=(minimal|representation|headers-only)|count=exact|handling=(strict|lenient)|max-affected=\d+"
)
SINCE = {"handling": (12, 0), "max-affected": (12, 1)}
WILD = {"%": ".*", "_": "."}

Row = dict[str, Any]
Condition = Callable[[Row], bool]


class Refusal(Exception):
    def __init__(self, status: int, code: str, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.answer = json_answer(status, {"code": code, "message": message, "details": None, "hint": hint})


class SupabaseStandIn(HttpStandIn):
    def __init__(
        self,
        *,
        max_rows: int = 1_000,
        has_send_logs: bool = True,
        postgrest: tuple[int, int] = (12, 2),
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.max_rows = max_rows
        self.postgrest = postgrest
        self.frozen: set[str] = set()  # A trigger silently reverts changes of the rows of these addresses.
        self.columns: dict[str, Mapping[str, Any]] = {"subscribers": SUBSCRIBERS}
        if has_send_logs:
            self.columns["send_logs"] = SEND_LOGS
        self._tables: dict[str, list[Row]] = {name: [] for name in self.columns}
        self.json_columns: set[str] = set()  # Lists in other columns are arrays of PostgreSQL.
        self.keys = {SECRET_KEY: "service_role", PUBLISHABLE_KEY: "anon"}

    def add(self, table: str, **fields: Any) -> None:
        self._tables[table].append({**self.columns[table], **fields})

    def rows(self, table: str) -> list[Row]:
        return self._tables[table]

    def subscriber(self, email: str) -> Row:
        [found] = [row for row in self.rows("subscribers") if row["email"] == email]
        return found

    def usual(self, request: Request) -> Answer:
        try:
            return self._answer_to(request)
        except Refusal as refusal:
            return refusal.answer

    def _answer_to(self, request: Request) -> Answer:
        role = self.keys.get(request.headers.get("apikey", ""))
        if role is None:
            return json_answer(401, {"message": "Invalid API key", "hint": "Double check your API key."})
        table = request.path.removeprefix(f"{BASE}/")
        if table not in self.columns:
            raise Refusal(404, "PGRST205", f"Could not find the table 'public.{table}' in the schema cache")
        given = [pair.partition("=")[::2] for pair in request.query.split("&") if pair]
        query = [(unquote_plus(name), unquote_plus(value)) for name, value in given]
        preferences = _preferences(request, self.postgrest)
        match request.method:
            case "GET" | "HEAD":
                return self._select(table, query, role, preferences)
            case "PATCH":
                return self._update(table, query, role, preferences, request.json())
            case "POST":
                return self._insert(table, role, preferences, request.json())
            case method:
                raise Refusal(405, "PGRST117", f"Unsupported HTTP method: {method}")

    def _select(self, table: str, query: list[tuple[str, str]], role: str, preferences: Mapping[str, str]) -> Answer:
        # Row level security silently hides every row from this role.
        seen = self._matching(table, query) if role == "service_role" else []
        named = dict(query)
        for column, is_descending in reversed(self._order(table, named.get("order", ""))):
            seen = sorted(seen, key=lambda row: str(row[column]), reverse=is_descending)
        start = int(named.get("offset", 0))
        page = seen[start : start + min(int(named.get("limit", self.max_rows)), self.max_rows)]
        wanted = [each.strip() for each in named.get("select", "*").split(",")]
        columns = list(self.columns[table]) if wanted == ["*"] else wanted
        for column in columns:
            self._known(table, column)
        total = str(len(seen)) if "count" in preferences else "*"
        shown = f"{start}-{start + len(page) - 1}" if page else "*"
        is_part = total != "*" and len(page) < len(seen)
        content = [{column: row[column] for column in columns} for row in page]
        return json_answer(206 if is_part else 200, content, Content_Range=f"{shown}/{total}")

    def _update(
        self, table: str, query: list[tuple[str, str]], role: str, preferences: Mapping[str, str], body: Any
    ) -> Answer:
        if not any(name not in RESERVED for name, _ in query):
            raise Refusal(400, "21000", "UPDATE requires a WHERE clause")
        for column in body:
            self._known_to_write(table, column)
        met = self._matching(table, query) if role == "service_role" else []
        met = [row for row in met if row["email"] not in self.frozen]
        most = preferences.get("max-affected")
        if most is not None and preferences.get("handling") == "strict" and len(met) > int(most):
            raise Refusal(400, "PGRST124", "Query result exceeds max-affected preference constraint")
        for row in met:
            row.update(body)
        counted = {"Content_Range": f"*/{len(met)}"} if "count" in preferences else {}
        if preferences.get("return") == "representation":
            columns = dict(query).get("select", "*").split(",")
            shown = met if columns == ["*"] else [{column: row[column] for column in columns} for row in met]
            return json_answer(200, shown, **counted)
        return Answer(204, b"", {name.replace("_", "-"): value for name, value in counted.items()})

    def _insert(self, table: str, role: str, preferences: Mapping[str, str], body: Any) -> Answer:
        if role != "service_role":
            message = f'new row violates row-level security policy for table "{table}"'
            raise Refusal(401, "42501", message)
        rows = body if isinstance(body, list) else [body]
        if any(row.keys() != rows[0].keys() for row in rows):
            raise Refusal(400, "PGRST102", "All object keys must match")
        for column in rows[0] if rows else ():
            self._known_to_write(table, column)
        for row in rows:
            self.add(table, **row)
        is_shown = preferences.get("return") == "representation"
        return json_answer(201, rows) if is_shown else Answer(201)

    # Filters.

    def _matching(self, table: str, query: list[tuple[str, str]]) -> list[Row]:
        conditions = [self._condition(table, name, text) for name, text in query if name not in RESERVED]
        conditions += [self._any_of(table, text) for name, text in query if name == "or"]
        return [row for row in self._tables[table] if all(condition(row) for condition in conditions)]

    def _condition(self, table: str, column: str, text: str) -> Condition:
        self._known(table, column)
        operator, dot, value = text.partition(".")
        if not dot:
            raise Refusal(400, "PGRST100", f'"failed to parse filter ({text})"')
        if operator == "not":
            inner = self._condition(table, column, value)
            return lambda row: not inner(row)
        if operator == "is":
            return lambda row: row[column] is None if value == "null" else row[column] is {"true": True}.get(value)
        if operator == "in":
            chosen = _items(value)
            return lambda row: row[column] in chosen
        if operator in ("like", "ilike"):
            pattern = _pattern(value, re.IGNORECASE if operator == "ilike" else 0)
            return lambda row: row[column] is not None and pattern.fullmatch(row[column]) is not None
        if operator not in _COMPARES:
            raise Refusal(400, "PGRST100", f'"failed to parse filter ({text})"')
        if operator == "eq" and any(isinstance(row[column], list) for row in self._tables[table]):
            wanted = _array(value, is_json=column in self.json_columns)
            return lambda row: row[column] == wanted
        compares = _COMPARES[operator]
        # A missing value matches no comparison.
        return lambda row: row[column] is not None and compares(str(row[column]), value)

    def _any_of(self, table: str, text: str) -> Condition:
        """Parse `(status.is.null,status.neq.active)`: a row matches if one of the conditions does."""
        parts = [each.partition(".") for each in text.removeprefix("(").removesuffix(")").split(",")]
        conditions = [self._condition(table, column, rest) for column, _, rest in parts]
        return lambda row: any(condition(row) for condition in conditions)

    def _order(self, table: str, text: str) -> list[tuple[str, bool]]:
        found = []
        for each in filter(None, text.split(",")):
            column, _, direction = each.partition(".")
            self._known(table, column)
            found.append((column, direction.startswith("desc")))
        return found

    def _known(self, table: str, column: str) -> None:
        if column not in self.columns[table]:
            raise Refusal(400, "42703", f"column {table}.{column} does not exist")

    def _known_to_write(self, table: str, column: str) -> None:
        if column not in self.columns[table]:
            message = f"Could not find the '{column}' column of '{table}' in the schema cache"
            raise Refusal(400, "PGRST204", message)


_COMPARES: Mapping[str, Callable[[str, str], bool]] = {
    "eq": lambda here, value: here == value,
    "neq": lambda here, value: here != value,
    "gt": lambda here, value: here > value,
    "gte": lambda here, value: here >= value,
    "lt": lambda here, value: here < value,
    "lte": lambda here, value: here <= value,
}


def _array(text: str, *, is_json: bool) -> list[str] | dict[str, Any]:
    """Parse a list as the type of its column does."""
    if is_json:
        try:
            parsed: list[str] | dict[str, Any] = json.loads(text)
        except ValueError as error:
            raise Refusal(400, "22P02", "invalid input syntax for type json") from error
        return parsed
    if not (text.startswith("{") and text.endswith("}")):
        raise Refusal(400, "22P02", f'malformed array literal: "{text}"')
    return [re.sub(r"\\(.)", r"\1", quoted) or plain for quoted, plain in _ARRAY_ITEM.findall(text[1:-1])]


_ARRAY_ITEM = re.compile(r'"((?:\\.|[^"\\])*)"|([^,"]+)')


def _preferences(request: Request, postgrest: tuple[int, int]) -> dict[str, str]:
    """Parse the preferences. 12.0 knows strict handling but not `max-affected`; older versions know neither."""
    given = [each.strip() for line in request.headers.getall("Prefer", []) for each in line.split(",") if each.strip()]
    newer = [name for name, since in SINCE.items() if postgrest < since]
    known = [each for each in given if PREFERENCES.fullmatch(each) and each.partition("=")[0] not in newer]
    if len(known) < len(given) and "handling=strict" in known:
        raise Refusal(400, "PGRST122", "Invalid preferences given with handling=strict")
    return dict(each.partition("=")[::2] for each in known)


def _items(text: str) -> set[str]:
    """Split `("a","b",c)`. Quoted items may contain commas."""
    if not (text.startswith("(") and text.endswith(")")):
        raise Refusal(400, "PGRST100", f'"failed to parse filter (in.{text})"')
    found = re.findall(r'"((?:\\.|[^"\\])*)"|([^,"]+)', text[1:-1])
    return {re.sub(r"\\(.)", r"\1", quoted) if quoted else plain for quoted, plain in found}


def _pattern(text: str, flags: int) -> re.Pattern[str]:
    """Convert a pattern: a star becomes a percent sign, and a backslash escapes the next character."""
    text = text.replace("*", "%")
    pieces, position = [], 0
    while position < len(text):
        if text[position] == "\\" and position + 1 < len(text):
            position += 1
            pieces.append(re.escape(text[position]))
        else:
            pieces.append(WILD.get(text[position]) or re.escape(text[position]))
        position += 1
    return re.compile("".join(pieces), flags | re.DOTALL)


async def serve(host: str, port: int, asked: StandInOptions) -> None:
    async with SupabaseStandIn(host=host, port=port) as supabase:
        for number in range(25):
            supabase.add("subscribers", email=f"reader{number:02}@example.com", from_name="Ada" if number % 5 else None)
        misbehave(supabase, asked, f"{BASE}/subscribers")
        print(f"Supabase stands in at {supabase.url} with {len(supabase.rows('subscribers'))} subscribers. Set:")
        print(f"  export SUPABASE_URL={supabase.url} SUPABASE_SERVICE_ROLE_KEY={SECRET_KEY}", flush=True)
        await asyncio.Event().wait()
