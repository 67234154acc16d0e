"""A client of PostgREST, the HTTP API of Supabase. Every read is complete, or an error is raised."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

import orjson

from mailwright.domain.foreign_json import load_json
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.ops.logs import logger
from mailwright.providers.http import Disconnect, HttpClient, HttpResponse
from mailwright.sources.recipient_statuses import StatusWrite, SubscriberStatus, is_replaced
from mailwright.sources.supabase.errors import (
    SupabaseError,
    SupabaseInDoubt,
    SupabaseRefused,
    SupabaseUnavailable,
)
from mailwright.sources.supabase.keys import find_key_problem, is_token
from mailwright.sources.supabase.spellings import is_spelling_of, search_pattern

# Supabase silently returns at most this many rows.
PAGE_ROWS: Final = 1_000
ATTEMPTS: Final = 4
TIMEOUT_SECONDS: Final = 30.0
MAX_RESPONSE_BYTES: Final = 16 * 1024 * 1024

# The code for a PostgREST that does not know the preference `max-affected`.
NO_MAX_AFFECTED: Final = "SUPABASE_NO_MAX_AFFECTED"
# Proxies in front of PostgREST refuse URLs longer than about 8 KB.
MAX_LIST_LENGTH: Final = 4_000

# The code for a value that the type of the column does not allow.
INVALID_VALUE: Final = "SUPABASE_INVALID_VALUE"

# PostgREST codes for a missing table, a missing column and a missing permission.
NO_TABLE: Final = ("PGRST205", "42P01")
NO_COLUMN: Final = ("PGRST204", "42703")
NO_PERMISSION: Final = "42501"
INVALID_TEXT: Final = "22P02"

Sleep = Callable[[float], Awaitable[None]]

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class SettingNames:
    """The names of the settings that errors tell people to correct."""

    url: str = "SUPABASE_URL"
    key: str = "SUPABASE_SERVICE_ROLE_KEY"


@dataclass(frozen=True, slots=True)
class _SupabaseRequest:
    """A request. `is_repeatable` means that it is idempotent."""

    method: str
    path: str
    about: str
    prefer: str | None = None
    body: Any = None
    is_repeatable: bool = True


class SupabaseRest:
    """A Supabase project with a key. `limits_updates` is false once a PostgREST before 12.1 has refused the limit."""

    def __init__(
        self,
        http: HttpClient,
        url: str,
        key: str,
        *,
        settings: SettingNames = SettingNames(),  # noqa: B008 - immutable
        schema: str | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self.limits_updates = True
        self._http = http
        self._url = f"{url.rstrip('/')}/rest/v1"
        self._key = key
        self._settings = settings
        self._sleep = sleep
        self._headers = {"apikey": key, "Accept": "application/json"}
        if schema is not None:
            self._headers |= {"Accept-Profile": schema, "Content-Profile": schema}
        if is_token(key):
            self._headers["Authorization"] = f"Bearer {key}"

    def check_key(self) -> None:
        """Raise `SupabaseRefused` for a browser key, for which Supabase returns neither rows nor an error."""
        if objection := find_key_problem(self._key):
            raise SupabaseRefused(
                "{setting}: {objection}.",
                code="SUPABASE_KEY_SEES_NOTHING",
                setting=self._settings.key,
                objection=objection,
            )

    async def call(self, call: _SupabaseRequest) -> list[Mapping[str, Any]]:
        failure: SupabaseError = SupabaseUnavailable()
        for attempt in range(ATTEMPTS):
            reply = await self._request(call)
            if isinstance(reply, HttpResponse) and 200 <= reply.status < 300:
                rows = _rows(call, reply)
                if rows is not None:
                    return rows
            failure = _failure(call, reply, self._settings)
            if not isinstance(failure, SupabaseUnavailable) or isinstance(failure, SupabaseInDoubt):
                break
            if attempt < ATTEMPTS - 1:
                log.info("supabase_request_retried", table=call.about, reason=str(failure))
                await self._sleep(float(1 << attempt) / 2)
        raise failure

    async def _request(self, call: _SupabaseRequest) -> HttpResponse | Disconnect:
        headers = dict(self._headers)
        if call.prefer is not None:
            headers["Prefer"] = call.prefer
        if call.body is not None:
            headers["Content-Type"] = "application/json"
        return await self._http.request(
            call.method,
            f"{self._url}{call.path}",
            headers=headers,
            body=b"" if call.body is None else orjson.dumps(call.body),
            timeout_seconds=TIMEOUT_SECONDS,
            max_response_bytes=MAX_RESPONSE_BYTES,
        )


class SupabaseTable:
    """A table. The column `email` holds the addresses as people typed them."""

    def __init__(self, rest: SupabaseRest, name: str, email: str = "email") -> None:
        self._rest = rest
        self._name = name
        self._email = email

    async def select(self, query: str) -> list[Mapping[str, Any]]:
        return await self._rest.call(_SupabaseRequest("GET", f"/{self._name}?{query}", self._name))

    async def pages(self, columns: str, where: str) -> AsyncIterator[list[Mapping[str, Any]]]:
        """Yield all rows in pages. Each page starts after the last address, so changes never skip or repeat a row."""
        last: str | None = None
        seen: set[str] = set()
        while rows := await self.page(columns, where, after=last):
            # A short page is not the end: the server may return fewer rows than requested.
            last = str(rows[-1][self._email])
            if last in seen:
                raise SupabaseUnavailable("Supabase returned the same page of {about} twice.", about=self._name)
            seen.add(last)
            yield rows

    async def page(self, columns: str, where: str = "", *, after: str | None) -> list[Mapping[str, Any]]:
        """Return the next rows by address; none after the last row."""
        beginning = f"{self._email}=not.is.null" if after is None else f"{self._email}=gt.{filter_value(after)}"
        conditions = "&".join(filter(None, (where, beginning)))
        rows = await self.select(f"select={columns}&{conditions}&order={self._email}.asc&limit={PAGE_ROWS}")
        if not all(isinstance(row.get(self._email), str) for row in rows):
            raise SupabaseUnavailable("Supabase returned rows of {about} without an address.", about=self._name)
        return rows

    async def rows_of(self, email: str, columns: str) -> list[Mapping[str, Any]]:
        """Return the rows of an address in any spelling."""
        where = f"{self._email}=ilike.{filter_value(search_pattern(email))}"
        pages = [rows async for rows in self.pages(columns, where)]
        return [row for rows in pages for row in rows if is_spelling_of(str(row[self._email]), email)]

    async def update(self, where: str, changes: Mapping[str, Any], *, expected: int) -> int:
        """Update at most as many rows as expected, and return how many changed."""
        limit = f", handling=strict, max-affected={expected}" if self._rest.limits_updates else ""
        call = _SupabaseRequest(
            "PATCH",
            f"/{self._name}?select={self._email}&{where}",
            self._name,
            prefer=f"return=representation{limit}",
            body=changes,
        )
        try:
            return len(await self._rest.call(call))
        except SupabaseRefused as refused:
            if refused.code != NO_MAX_AFFECTED or not limit:
                raise
        # The filter names the stored addresses exactly, so the limit is only a second safeguard.
        self._rest.limits_updates = False
        return await self.update(where, changes, expected=expected)

    async def replace_array(self, email: str, column: str, before: Any, after: Any, *, expected: int) -> int:
        """Replace an array, or a text, in the rows of an address that have exactly this one.

        A response shows an array and a JSON array alike, so both forms are tried. A column refuses the other one.
        """
        where, changes = f"{self._email}=eq.{filter_value(email)}", {column: after}
        if before is None:
            return await self.update(f"{where}&{column}=is.null", changes, expected=expected)
        forms = [before] if isinstance(before, str) else [array_literal(before), orjson.dumps(before).decode()]
        refusals = []
        for form in forms:
            same = f"{where}&{column}=eq.{filter_value(form)}"
            try:
                if changed := await self.update(same, changes, expected=expected):
                    return changed
            except SupabaseRefused as refused:
                if refused.code != INVALID_VALUE:
                    raise
                refusals.append(refused)
        if len(refusals) == len(forms):
            raise refusals[0]
        return 0

    async def write_status(
        self, change: SubscriberStatus, changes: Mapping[str, Any], *, column: str = "status", null_is_active: bool
    ) -> StatusWrite:
        """Update every row of the address in any spelling, and verify that the rows changed.

        The condition is part of the update, so that a weaker status never replaces a stronger one in a race.
        """
        found = await self.rows_of(change.email, f"{self._email},{column}")
        outdated = [
            str(row[self._email])
            for row in found
            if is_replaced(row.get(column), change.status, null_is_active=null_is_active)
        ]
        if not outdated:
            return StatusWrite.UNCHANGED if found else StatusWrite.MISSING
        changed = 0
        for chosen in filter_lists(sorted(set(outdated))):
            where = f"{self._email}=in.({chosen}){_replaced(column, change.status, null_is_active=null_is_active)}"
            changed += await self.update(where, changes, expected=len(outdated))
        if changed < len(outdated):
            raise SupabaseRefused(
                "Supabase changed {changed} of {count} rows of a subscriber and gave no reason. Check the "
                "triggers and the row level security of the table, and that the key is the service_role key.",
                code="SUPABASE_NOT_CHANGED",
                changed=changed,
                count=len(outdated),
            )
        return StatusWrite.CHANGED

    async def probe_update(self, changes: Mapping[str, Any]) -> None:
        """Run a real update with a condition that no row meets. Raise `SupabaseRefused` if it is not allowed."""
        await self.update(f"{self._email}=is.null&{self._email}=not.is.null", changes, expected=0)

    async def insert(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Insert all rows or none. Raises `SupabaseInDoubt` if they may exist already."""
        call = _SupabaseRequest(
            "POST", f"/{self._name}", self._name, prefer="return=minimal", body=rows, is_repeatable=False
        )
        await self._rest.call(call)


# Filter values.


def filter_value(text: str) -> str:
    """Percent-encode a value. PostgREST takes it literally; a bare `+` would be a space."""
    return quote(text, safe="@.-_~")


def array_literal(texts: Sequence[str]) -> str:
    """Return an array as PostgreSQL reads it: `{"news","a \\"b\\""}`."""
    escaped = (text.replace("\\", "\\\\").replace('"', '\\"') for text in texts)
    return "{" + ",".join(f'"{each}"' for each in escaped) + "}"


def _quoted(text: str) -> str:
    """Quote a value for use inside `in.(…)`."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return filter_value(f'"{escaped}"')


def filter_lists(texts: Sequence[str]) -> Iterator[str]:
    """Yield lists of quoted values that fit into a URL."""
    chosen = ""
    for quoted in map(_quoted, texts):
        if chosen and len(chosen) + len(quoted) >= MAX_LIST_LENGTH:
            yield chosen
            chosen = ""
        chosen = f"{chosen},{quoted}" if chosen else quoted
    if chosen:
        yield chosen


def _replaced(column: str, status: str, *, null_is_active: bool) -> str:
    """Return the rule of `is_replaced` as a filter."""
    match status:
        case "bounced":
            return ""
        case "unsubscribed" if null_is_active:
            return f"&or=({column}.is.null,{column}.neq.bounced)"
        case "unsubscribed":
            return f"&{column}=neq.bounced"
        case _:
            return f"&{column}=eq.unsubscribed"


# Responses.


def _rows(call: _SupabaseRequest, reply: HttpResponse) -> list[Mapping[str, Any]] | None:
    """Return the rows, or None if the body is not a PostgREST response."""
    if call.prefer == "return=minimal":
        return []
    try:
        rows = load_json(reply.body)
    except orjson.JSONDecodeError:
        return None
    is_right = isinstance(rows, list) and all(isinstance(row, dict) for row in rows)
    return rows if is_right else None


def _failure(call: _SupabaseRequest, reply: HttpResponse | Disconnect, settings: SettingNames) -> SupabaseError:
    """Classify a failure: retry, in doubt, or refused."""
    if isinstance(reply, Disconnect):
        if reply.is_in_doubt and not call.is_repeatable:
            return SupabaseInDoubt(
                "Supabase did not confirm the rows of {about}: {cause}.", about=call.about, cause=reply.cause
            )
        return SupabaseUnavailable("Supabase is unreachable: {cause}.", cause=reply.cause)
    if reply.status >= 500 and not call.is_repeatable:
        return SupabaseInDoubt(
            "Supabase returned {status} and may have stored the rows of {about}.", status=reply.status, about=call.about
        )
    if reply.status == 429 or reply.status >= 500 or reply.status < 300:
        return SupabaseUnavailable("Supabase returned {status} without a usable body.", status=reply.status)
    return _refusal(call, reply, settings)


def _refusal(call: _SupabaseRequest, reply: HttpResponse, settings: SettingNames) -> SupabaseRefused:
    """Explain the problem, and how to fix it in Supabase."""
    code, message = _parse_error(reply)
    if code in NO_TABLE:
        return SupabaseRefused("Supabase has no table {about}. Create it.", code="SUPABASE_NO_TABLE", about=call.about)
    if code == "PGRST122":
        return SupabaseRefused(
            "PostgREST is older than 12.1 and does not know the preference max-affected.", code=NO_MAX_AFFECTED
        )
    if code in NO_COLUMN:
        return SupabaseRefused(
            "The table {about} in Supabase lacks a column that Mailwright needs: {text}",
            code="SUPABASE_NO_COLUMN",
            about=call.about,
            text=message,
        )
    if code == NO_PERMISSION or reply.status in (401, 403):
        return _access_refusal(call, settings, message if code == NO_PERMISSION else None)
    if 300 <= reply.status < 400:
        return SupabaseRefused(
            "Supabase redirected the request ({status}), and redirects are not followed, because the key would go to "
            "another server. Set {setting} to the address of the project itself.",
            code="SUPABASE_REDIRECTED",
            status=reply.status,
            setting=settings.url,
        )
    return SupabaseRefused(
        "Supabase refused {about} with {status} {reason}: {text}",
        code=INVALID_VALUE if code == INVALID_TEXT else None,
        about=call.about,
        status=reply.status,
        reason=code,
        text=message,
    )


def _access_refusal(call: _SupabaseRequest, settings: SettingNames, message: str | None) -> SupabaseRefused:
    """Explain a rejected key or, if PostgreSQL gives a reason, a missing permission for the table."""
    if message is None:
        return SupabaseRefused(
            "Supabase rejected the key. Set {setting} to the service_role key or a secret key of this project.",
            code="SUPABASE_UNAUTHORIZED",
            setting=settings.key,
        )
    return SupabaseRefused(
        "The key in {setting} may not use the table {about}: {text}. Use the service_role key or a secret key, and "
        "grant its role access to the table.",
        code="SUPABASE_UNAUTHORIZED",
        setting=settings.key,
        about=call.about,
        text=message.rstrip("."),
    )


def _parse_error(reply: HttpResponse) -> tuple[str, str]:
    try:
        body = load_json(reply.body)
    except orjson.JSONDecodeError:
        body = None
    error = body if isinstance(body, dict) else {}
    return str(error.get("code") or ""), " ".join(str(error.get("message") or "no reason given.").split())[:300]
