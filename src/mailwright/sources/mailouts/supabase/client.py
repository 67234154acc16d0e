"""Asking Supabase: subscribers page by page, however many they are, and changes that no race can turn back."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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

SUBSCRIBERS: Final = "subscribers"
SEND_LOGS: Final = "send_logs"
COLUMNS: Final = ("email", "status", "from_name", "bounce_type", "bounce_subtype", "status_updated_at")

# Supabase hands out no more at once, whatever is asked for, and does not say so.
PAGE_ROWS: Final = 1_000
ATTEMPTS: Final = 4
TIMEOUT_SECONDS: Final = 30.0
MAX_RESPONSE_BYTES: Final = 16 * 1024 * 1024
# One address in several spellings is a few rows. A filter that meets more than this was misread by somebody.
MAX_ROWS_PER_ADDRESS: Final = 20

# What stands before PostgREST takes addresses of some 8 KB, and refuses longer ones.
MAX_LIST_LENGTH: Final = 4_000

# Codes of PostgREST for what is not there.
NO_TABLE: Final = ("PGRST205", "42P01")

Sleep = Callable[[float], Awaitable[None]]

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A row as it is there: the address in whatever spelling somebody typed."""

    email: str
    from_name: str | None


@dataclass(frozen=True, slots=True)
class SubscriberStatus:
    """What is told of a person. Going back to `active` undoes nothing but a leaving that we told of before."""

    email: str
    status: str
    at: Instant
    bounce_type: str | None = None
    bounce_subtype: str | None = None


@dataclass(frozen=True, slots=True)
class LogLine:
    email: str
    status: str  # sent or failed
    error_message: str | None


@dataclass(frozen=True, slots=True)
class _Call:
    """`is_repeatable`: doing it twice is doing it once."""

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
        self._headers = {"apikey": key, "Accept": "application/json"}
        if is_token(key):
            self._headers["Authorization"] = f"Bearer {key}"

    async def probe(self) -> None:
        """Raises a `SupabaseRefused` where a mailout would go to nobody as if nobody were there.

        A key for browsers is answered with no rows and no error, so a table that looks empty is not believed.
        """
        if objection := find_key_problem(self._key):
            raise SupabaseRefused(f"SUPABASE_SERVICE_ROLE_KEY: {objection}.", code="SUPABASE_KEY_SEES_NOTHING")
        if not await self._ask(_Call("GET", f"/{SUBSCRIBERS}?select=email&limit=1", SUBSCRIBERS)):
            raise SupabaseRefused(
                "Supabase shows no row of subscribers at all: either the table is empty, or row level security hides "
                "it from this key. Set SUPABASE_SERVICE_ROLE_KEY to the service_role or a secret key.",
                code="SUPABASE_KEY_SEES_NOTHING",
            )

    async def probe_columns(self) -> None:
        """Raises where subscribers lack a column that is read, or that is written of whoever bounces or leaves."""
        await self._ask(_Call("GET", f"/{SUBSCRIBERS}?select={','.join(COLUMNS)}&limit=1", SUBSCRIBERS))

    async def active(self) -> AsyncIterator[list[Subscriber]]:
        """All who are active, page after page. Each begins after the last address of the one before: whoever leaves
        meanwhile moves nobody else."""
        last: str | None = None
        while True:
            beginning = "email=not.is.null" if last is None else f"email=gt.{_value(last)}"
            query = f"select=email,from_name&status=eq.active&{beginning}&order=email.asc&limit={PAGE_ROWS}"
            rows = await self._ask(_Call("GET", f"/{SUBSCRIBERS}?{query}", SUBSCRIBERS))
            page = [_subscriber(row) for row in rows]
            if not page:
                # Not at a short page: an installation may hand out fewer than we ask for.
                return
            if last == page[-1].email:
                raise SupabaseUnavailable("Supabase gives the same subscribers again and again.")
            last = page[-1].email
            yield page

    async def update_status(self, standing: SubscriberStatus) -> None:
        """The condition is part of the change: what weighs less never replaces what weighs more, whoever is first."""
        changes: dict[str, Any] = {"status": standing.status, "status_updated_at": isoformat(standing.at)}
        match standing.status:
            case "bounced":
                changes |= {"bounce_type": standing.bounce_type, "bounce_subtype": standing.bounce_subtype}
                condition = ""
            case "unsubscribed":
                condition = "&status=neq.bounced"
            case _:
                condition = "&status=eq.unsubscribed"
        await self._ask(
            _Call(
                "PATCH",
                f"/{SUBSCRIBERS}?{_same_address(standing.email)}{condition}",
                SUBSCRIBERS,
                prefer=f"return=minimal, handling=strict, max-affected={MAX_ROWS_PER_ADDRESS}",
                body=changes,
            )
        )

    async def has_logs(self) -> bool:
        """Whether somebody made the table `send_logs`."""
        try:
            await self._ask(_Call("GET", f"/{SEND_LOGS}?select=email&limit=1", SEND_LOGS))
        except SupabaseRefused as refused:
            if refused.code == "SUPABASE_NO_TABLE":
                return False
            raise
        return True

    async def logged(self, mailout_id: str, emails: Sequence[str]) -> set[tuple[str, str]]:
        """Whom of these `send_logs` tells of already, and with which status."""
        there: set[tuple[str, str]] = set()
        for chosen in _lists(emails):
            query = f"select=email,status&mailout_id=eq.{_value(mailout_id)}&email=in.({chosen})"
            rows = await self._ask(_Call("GET", f"/{SEND_LOGS}?{query}", SEND_LOGS))
            there |= {(str(row.get("email")), str(row.get("status"))) for row in rows}
        return there

    async def log(self, mailout_id: str, lines: Sequence[LogLine]) -> None:
        """All of them or none. Raises `SupabaseInDoubt` where they may be there already."""
        rows = [
            {
                "mailout_id": mailout_id,
                "email": line.email,
                "status": line.status,
                "error_message": line.error_message,
            }
            for line in lines
        ]
        call = _Call("POST", f"/{SEND_LOGS}", SEND_LOGS, prefer="return=minimal", body=rows, is_repeatable=False)
        await self._ask(call)

    async def _ask(self, call: _Call) -> list[Mapping[str, Any]]:
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
                log.info("supabase_asked_again", table=call.about, reason=str(failure))
                await self._sleep(float(1 << attempt) / 2)
        raise failure

    async def _request(self, call: _Call) -> HttpResponse | Disconnect:
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


# How values stand in a filter.


def _value(text: str) -> str:
    """Everything after the operator is taken as it is: it is never quoted, and a bare `+` would be a space."""
    return quote(text, safe="@.-_~")


def _quoted(text: str) -> str:
    """Inside of `in.(…)` values stand in quotes."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return _value(f'"{escaped}"')


def _lists(texts: Sequence[str]) -> Iterator[str]:
    """As many values at a time as an address of a request has room for."""
    chosen = ""
    for quoted in map(_quoted, texts):
        if chosen and len(chosen) + len(quoted) >= MAX_LIST_LENGTH:
            yield chosen
            chosen = ""
        chosen = f"{chosen},{quoted}" if chosen else quoted
    if chosen:
        yield chosen


def _same_address(email: str) -> str:
    """In whatever case it was typed. A star is any text to PostgREST, and no escape helps: such an address must be
    there as we have it."""
    if "*" in email:
        return f"email=eq.{_value(email)}"
    escaped = email.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"email=ilike.{_value(escaped)}"


# What came back.


def _rows(call: _Call, reply: HttpResponse) -> list[Mapping[str, Any]] | None:
    """None where it is not what PostgREST answers."""
    if call.method != "GET":
        return []
    try:
        rows = orjson.loads(reply.body)
    except orjson.JSONDecodeError:
        return None
    is_right = isinstance(rows, list) and all(isinstance(row, dict) for row in rows)
    return rows if is_right else None


def _subscriber(row: Mapping[str, Any]) -> Subscriber:
    name = row.get("from_name")
    return Subscriber(str(row.get("email") or ""), name.strip() or None if isinstance(name, str) else None)


def _failure(call: _Call, reply: HttpResponse | Disconnect) -> SupabaseError:
    """Who is asked again, who is in doubt, and who is refused."""
    if isinstance(reply, Disconnect):
        if reply.is_in_doubt and not call.is_repeatable:
            return SupabaseInDoubt(f"Supabase did not say whether it took the rows of {call.about}: {reply.cause}.")
        return SupabaseUnavailable(f"Supabase is out of reach: {reply.cause}.")
    if reply.status >= 500 and not call.is_repeatable:
        return SupabaseInDoubt(f"Supabase answered {reply.status}, and may have taken the rows of {call.about}.")
    if reply.status == 429 or reply.status >= 500 or reply.status < 300:
        return SupabaseUnavailable(f"Supabase answered {reply.status} and nothing to go by.")
    return _refusal(call, reply)


def _refusal(call: _Call, reply: HttpResponse) -> SupabaseRefused:
    """What is wrong, and what to do about it there."""
    code, message = _told(reply)
    if code in NO_TABLE:
        return SupabaseRefused(f"Supabase has no table {call.about}: create it.", code="SUPABASE_NO_TABLE")
    if code in ("PGRST204", "42703"):
        return SupabaseRefused(
            f"The table {call.about} in Supabase lacks a column that mailouts need: {message}",
            code="SUPABASE_NO_COLUMN",
        )
    if reply.status in (401, 403):
        return SupabaseRefused(
            "Supabase does not take our key: set SUPABASE_SERVICE_ROLE_KEY to the service_role or a secret key of "
            "this project.",
            code="SUPABASE_UNAUTHORIZED",
        )
    return SupabaseRefused(f"Supabase refuses {call.about} with {reply.status} {code}: {message}")


def _told(reply: HttpResponse) -> tuple[str, str]:
    try:
        found = orjson.loads(reply.body)
    except orjson.JSONDecodeError:
        found = None
    told = found if isinstance(found, dict) else {}
    return str(told.get("code") or ""), " ".join(str(told.get("message") or "it gives no reason.").split())[:300]
