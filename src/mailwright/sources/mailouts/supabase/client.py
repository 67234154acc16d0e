"""A client of Supabase for subscribers, their status and send logs."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final
from urllib.parse import quote

import orjson

from mailwright.domain.clock import Instant, isoformat
from mailwright.ops.logs import logger
from mailwright.providers.http import Disconnect, HttpClient, HttpResponse
from mailwright.sources.mailouts.supabase.errors import (
    SupabaseError,
    SupabaseInDoubt,
    SupabaseRefused,
    SupabaseUnavailable,
)
from mailwright.sources.mailouts.supabase.keys import find_key_problem, is_token
from mailwright.sources.mailouts.supabase.spellings import is_spelling_of, search_pattern
from mailwright.storage.foreign_json import load_json

SUBSCRIBERS: Final = "subscribers"
SEND_LOGS: Final = "send_logs"
COLUMNS: Final = ("email", "status", "from_name", "bounce_type", "bounce_subtype", "status_updated_at")

# All statuses that Mailwright writes except `active`.
KNOWN_STATUSES: Final = ("unsubscribed", "bounced")

# Supabase silently returns at most this many rows.
PAGE_ROWS: Final = 1_000
ATTEMPTS: Final = 4
TIMEOUT_SECONDS: Final = 30.0
MAX_RESPONSE_BYTES: Final = 16 * 1024 * 1024

# The code for a PostgREST that does not know the preference `max-affected`.
NO_MAX_AFFECTED: Final = "SUPABASE_NO_MAX_AFFECTED"
# Proxies in front of PostgREST refuse URLs longer than about 8 KB.
MAX_LIST_LENGTH: Final = 4_000

# PostgREST codes for a missing table.
NO_TABLE: Final = ("PGRST205", "42P01")

Sleep = Callable[[float], Awaitable[None]]

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A row of the table, with the address as it was typed."""

    email: str
    from_name: str | None


@dataclass(frozen=True, slots=True)
class InactiveSubscriber:
    """A row whose status is not `active`, as it is in the table."""

    email: str
    status: str

    @property
    def is_known(self) -> bool:
        """Whether the status is one that Mailwright writes, and not for example `Active`."""
        return self.status in KNOWN_STATUSES


@dataclass(frozen=True, slots=True)
class SubscriberStatus:
    """The new status of a subscriber. `active` only undoes an unsubscribe that we wrote before."""

    email: str
    status: str
    at: Instant
    bounce_type: str | None = None
    bounce_subtype: str | None = None


class StatusWrite(Enum):
    """The result of a status update for the rows of an address."""

    CHANGED = auto()
    UNCHANGED = auto()  # every row has a status that the new one does not replace
    MISSING = auto()  # the table has no such address


@dataclass(frozen=True, slots=True)
class LogLine:
    email: str
    status: str  # sent or failed
    error_message: str | None


@dataclass(frozen=True, slots=True)
class _SupabaseRequest:
    """A request. `is_repeatable` means that it is idempotent."""

    method: str
    path: str
    about: str
    prefer: str | None = None
    body: Any = None
    is_repeatable: bool = True


class Supabase:
    def __init__(self, http: HttpClient, url: str, key: str, *, sleep: Sleep = asyncio.sleep) -> None:
        self._http = http
        self._url = f"{url.rstrip('/')}/rest/v1"
        self._key = key
        self._sleep = sleep
        self._limits_updates = True  # false once a PostgREST before 12.1 has refused the preference
        self._headers = {"apikey": key, "Accept": "application/json"}
        if is_token(key):
            self._headers["Authorization"] = f"Bearer {key}"

    async def probe(self) -> None:
        """Raise `SupabaseRefused` if the key sees no subscribers.

        Supabase returns no rows and no error for a browser key, so an empty table is treated as a wrong key.
        """
        if objection := find_key_problem(self._key):
            raise SupabaseRefused(
                "SUPABASE_SERVICE_ROLE_KEY: {objection}.", code="SUPABASE_KEY_SEES_NOTHING", objection=objection
            )
        if not await self._call(_SupabaseRequest("GET", f"/{SUBSCRIBERS}?select=email&limit=1", SUBSCRIBERS)):
            raise SupabaseRefused(
                "Supabase returned no subscribers: the table is empty, or row level security hides it from this key. "
                "Set SUPABASE_SERVICE_ROLE_KEY to the service_role key or a secret key.",
                code="SUPABASE_KEY_SEES_NOTHING",
            )

    async def probe_columns(self) -> None:
        """Raise `SupabaseRefused` if the table lacks a column that mailouts read or write."""
        await self._call(_SupabaseRequest("GET", f"/{SUBSCRIBERS}?select={','.join(COLUMNS)}&limit=1", SUBSCRIBERS))

    async def probe_update(self) -> bool:
        """Raise `SupabaseRefused` if rows cannot be updated. Return whether Supabase limits the rows of an update.

        It runs a real update with a condition that no row meets.
        """
        changes = dict.fromkeys(COLUMNS[1:]) | {"status": "bounced"}
        await self._update("email=is.null&email=not.is.null", changes, expected=0)
        return self._limits_updates

    async def active(self) -> AsyncIterator[list[Subscriber]]:
        """Yield all active subscribers in pages."""
        async for rows in self._pages("email,from_name", "status=eq.active"):
            yield [_subscriber(row) for row in rows]

    async def inactive(self) -> AsyncIterator[list[InactiveSubscriber]]:
        """Yield all rows that are not `active` in pages, including rows without a status."""
        async for rows in self._pages("email,status", "or=(status.is.null,status.neq.active)"):
            yield [InactiveSubscriber(str(row["email"]), str(row.get("status") or "")) for row in rows]

    async def update_status(self, change: SubscriberStatus) -> StatusWrite:
        """Update every row of the address in any spelling, and verify that the rows changed.

        The condition is part of the update, so that a weaker status never replaces a stronger one in a race.
        """
        changes: dict[str, Any] = {"status": change.status, "status_updated_at": isoformat(change.at)}
        if change.status == "bounced":
            changes |= {"bounce_type": change.bounce_type, "bounce_subtype": change.bounce_subtype}
        found = await self._rows_of(change.email)
        outdated = [str(row["email"]) for row in found if _is_replaced(row.get("status"), change.status)]
        if not outdated:
            return StatusWrite.UNCHANGED if found else StatusWrite.MISSING
        changed = 0
        for chosen in _lists(sorted(set(outdated))):
            where = f"email=in.({chosen}){_REPLACED.get(change.status, '')}"
            changed += await self._update(where, changes, expected=len(outdated))
        if changed < len(outdated):
            raise SupabaseRefused(
                "Supabase changed {changed} of {count} rows of a subscriber and gave no reason. Check the "
                "triggers and the row level security of the table, and that the key is the service_role key.",
                code="SUPABASE_NOT_CHANGED",
                changed=changed,
                count=len(outdated),
            )
        return StatusWrite.CHANGED

    async def _rows_of(self, email: str) -> list[Mapping[str, Any]]:
        """Return the rows of an address in any spelling."""
        where = f"email=ilike.{_value(search_pattern(email))}"
        pages = [rows async for rows in self._pages("email,status", where)]
        return [row for rows in pages for row in rows if is_spelling_of(str(row["email"]), email)]

    async def _update(self, where: str, changes: Mapping[str, Any], *, expected: int) -> int:
        """Update at most as many rows as expected, and return how many changed."""
        limit = f", handling=strict, max-affected={expected}" if self._limits_updates else ""
        call = _SupabaseRequest(
            "PATCH",
            f"/{SUBSCRIBERS}?select=email&{where}",
            SUBSCRIBERS,
            prefer=f"return=representation{limit}",
            body=changes,
        )
        try:
            return len(await self._call(call))
        except SupabaseRefused as refused:
            if refused.code != NO_MAX_AFFECTED or not limit:
                raise
        # The filter names the stored addresses exactly, so the limit is only a second safeguard.
        self._limits_updates = False
        return await self._update(where, changes, expected=expected)

    async def _pages(self, columns: str, where: str) -> AsyncIterator[list[Mapping[str, Any]]]:
        """Yield all rows in pages. Each page starts after the last address, so changes never skip or repeat a row."""
        last: str | None = None
        while True:
            beginning = "email=not.is.null" if last is None else f"email=gt.{_value(last)}"
            query = f"select={columns}&{where}&{beginning}&order=email.asc&limit={PAGE_ROWS}"
            rows = await self._call(_SupabaseRequest("GET", f"/{SUBSCRIBERS}?{query}", SUBSCRIBERS))
            if not rows:
                # A short page is not the end: the server may return fewer rows than requested.
                return
            if last == rows[-1].get("email"):
                raise SupabaseUnavailable("Supabase returned the same page of subscribers twice.")
            last = str(rows[-1].get("email") or "")
            yield rows

    async def has_logs(self) -> bool:
        """Return whether the table `send_logs` exists."""
        try:
            await self._call(_SupabaseRequest("GET", f"/{SEND_LOGS}?select=email&limit=1", SEND_LOGS))
        except SupabaseRefused as refused:
            if refused.code == "SUPABASE_NO_TABLE":
                return False
            raise
        return True

    async def logged(self, mailout_id: str, emails: Sequence[str]) -> set[tuple[str, str]]:
        """Return the addresses that `send_logs` already has, each with its status."""
        logged: set[tuple[str, str]] = set()
        for chosen in _lists(emails):
            query = f"select=email,status&mailout_id=eq.{_value(mailout_id)}&email=in.({chosen})"
            rows = await self._call(_SupabaseRequest("GET", f"/{SEND_LOGS}?{query}", SEND_LOGS))
            logged |= {(str(row.get("email")), str(row.get("status"))) for row in rows}
        return logged

    async def log(self, mailout_id: str, lines: Sequence[LogLine]) -> None:
        """Insert all rows or none. Raises `SupabaseInDoubt` if they may exist already."""
        rows = [
            {
                "mailout_id": mailout_id,
                "email": line.email,
                "status": line.status,
                "error_message": line.error_message,
            }
            for line in lines
        ]
        call = _SupabaseRequest(
            "POST", f"/{SEND_LOGS}", SEND_LOGS, prefer="return=minimal", body=rows, is_repeatable=False
        )
        await self._call(call)

    async def _call(self, call: _SupabaseRequest) -> list[Mapping[str, Any]]:
        failure: SupabaseError = SupabaseUnavailable()
        for attempt in range(ATTEMPTS):
            reply = await self._request(call)
            if isinstance(reply, HttpResponse) and 200 <= reply.status < 300:
                rows = _rows(call, reply)
                if rows is not None:
                    return rows
            failure = _failure(call, reply)
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


# Filter values.


def _value(text: str) -> str:
    """Percent-encode a value. PostgREST takes it literally; a bare `+` would be a space."""
    return quote(text, safe="@.-_~")


def _quoted(text: str) -> str:
    """Quote a value for use inside `in.(…)`."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return _value(f'"{escaped}"')


def _lists(texts: Sequence[str]) -> Iterator[str]:
    """Yield lists of quoted values that fit into a URL."""
    chosen = ""
    for quoted in map(_quoted, texts):
        if chosen and len(chosen) + len(quoted) >= MAX_LIST_LENGTH:
            yield chosen
            chosen = ""
        chosen = f"{chosen},{quoted}" if chosen else quoted
    if chosen:
        yield chosen


# The conditions under which a status replaces another: bounced outranks unsubscribed, which outranks active.
_REPLACED: Final = {"unsubscribed": "&status=neq.bounced", "active": "&status=eq.unsubscribed"}


def _is_replaced(current: object, status: str) -> bool:
    """Return whether a row with this status meets the condition of `_REPLACED`."""
    match status:
        case "bounced":
            return True
        case "unsubscribed":
            return current not in (None, "bounced")
        case _:
            return current == "unsubscribed"


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


def _subscriber(row: Mapping[str, Any]) -> Subscriber:
    name = row.get("from_name")
    return Subscriber(str(row.get("email") or ""), " ".join(name.split()) or None if isinstance(name, str) else None)


def _failure(call: _SupabaseRequest, reply: HttpResponse | Disconnect) -> SupabaseError:
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
    return _refusal(call, reply)


def _refusal(call: _SupabaseRequest, reply: HttpResponse) -> SupabaseRefused:
    """Explain the problem, and how to fix it in Supabase."""
    code, message = _parse_error(reply)
    if code in NO_TABLE:
        return SupabaseRefused("Supabase has no table {about}. Create it.", code="SUPABASE_NO_TABLE", about=call.about)
    if code == "PGRST122":
        return SupabaseRefused(
            "PostgREST is older than 12.1 and does not know the preference max-affected.", code=NO_MAX_AFFECTED
        )
    if code in ("PGRST204", "42703"):
        return SupabaseRefused(
            "The table {about} in Supabase lacks a column that mailouts need: {text}",
            code="SUPABASE_NO_COLUMN",
            about=call.about,
            text=message,
        )
    if reply.status in (401, 403):
        return SupabaseRefused(
            "Supabase rejected the key. Set SUPABASE_SERVICE_ROLE_KEY to the service_role key or a secret key of this "
            "project.",
            code="SUPABASE_UNAUTHORIZED",
        )
    return SupabaseRefused(
        "Supabase refused {about} with {status} {reason}: {text}",
        about=call.about,
        status=reply.status,
        reason=code,
        text=message,
    )


def _parse_error(reply: HttpResponse) -> tuple[str, str]:
    try:
        body = load_json(reply.body)
    except orjson.JSONDecodeError:
        body = None
    error = body if isinstance(body, dict) else {}
    return str(error.get("code") or ""), " ".join(str(error.get("message") or "no reason given.").split())[:300]
