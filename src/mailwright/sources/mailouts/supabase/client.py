"""A client of Supabase for subscribers, their status and send logs."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final

from mailwright.domain.clock import isoformat
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.providers.http import HttpClient
from mailwright.sources.recipient_statuses import StatusWrite, SubscriberStatus
from mailwright.sources.supabase import (
    Sleep,
    SupabaseRefused,
    SupabaseRest,
    SupabaseTable,
    filter_lists,
    filter_value,
)

SUBSCRIBERS: Final = "subscribers"
SEND_LOGS: Final = "send_logs"
COLUMNS: Final = ("email", "status", "from_name", "bounce_type", "bounce_subtype", "status_updated_at")

# All statuses that Mailwright writes except `active`.
KNOWN_STATUSES: Final = ("unsubscribed", "bounced")


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
class LogLine:
    email: str
    status: str  # sent or failed
    error_message: str | None


class Supabase:
    def __init__(self, http: HttpClient, url: str, key: str, *, sleep: Sleep = asyncio.sleep) -> None:
        self._rest = SupabaseRest(http, url, key, sleep=sleep)
        self._subscribers = SupabaseTable(self._rest, SUBSCRIBERS)
        self._send_logs = SupabaseTable(self._rest, SEND_LOGS)

    async def probe(self) -> None:
        """Raise `SupabaseRefused` if the key sees no subscribers.

        Supabase returns no rows and no error for a browser key, so an empty table is treated as a wrong key.
        """
        self._rest.check_key()
        if not await self._subscribers.select("select=email&limit=1"):
            raise SupabaseRefused(
                "Supabase returned no subscribers: the table is empty, or row level security hides it from this key. "
                "Set SUPABASE_SERVICE_ROLE_KEY to the service_role key or a secret key.",
                code="SUPABASE_KEY_SEES_NOTHING",
            )

    async def probe_columns(self) -> None:
        """Raise `SupabaseRefused` if the table lacks a column that mailouts read or write."""
        await self._subscribers.select(f"select={','.join(COLUMNS)}&limit=1")

    async def probe_update(self) -> bool:
        """Raise `SupabaseRefused` if rows cannot be updated. Return whether Supabase limits the rows of an update."""
        await self._subscribers.probe_update(dict.fromkeys(COLUMNS[1:]) | {"status": "bounced"})
        return self._rest.limits_updates

    async def active(self) -> AsyncIterator[list[Subscriber]]:
        """Yield all active subscribers in pages."""
        async for rows in self._subscribers.pages("email,from_name", "status=eq.active"):
            yield [_subscriber(row) for row in rows]

    async def inactive(self) -> AsyncIterator[list[InactiveSubscriber]]:
        """Yield all rows that are not `active` in pages, including rows without a status."""
        async for rows in self._subscribers.pages("email,status", "or=(status.is.null,status.neq.active)"):
            yield [InactiveSubscriber(str(row["email"]), str(row.get("status") or "")) for row in rows]

    async def update_status(self, change: SubscriberStatus) -> StatusWrite:
        """Update every row of the address in any spelling. A row without a status stays as it is."""
        changes: dict[str, Any] = {"status": change.status, "status_updated_at": isoformat(change.at)}
        if change.status == "bounced":
            changes |= {"bounce_type": change.bounce_type, "bounce_subtype": change.bounce_subtype}
        return await self._subscribers.write_status(change, changes, null_is_active=False)

    async def has_logs(self) -> bool:
        """Return whether the table `send_logs` exists."""
        try:
            await self._send_logs.select("select=email&limit=1")
        except SupabaseRefused as refused:
            if refused.code == "SUPABASE_NO_TABLE":
                return False
            raise
        return True

    async def logged(self, mailout_id: str, emails: Sequence[str]) -> set[tuple[str, str]]:
        """Return the addresses that `send_logs` already has, each with its status."""
        logged: set[tuple[str, str]] = set()
        for chosen in filter_lists(emails):
            query = f"select=email,status&mailout_id=eq.{filter_value(mailout_id)}&email=in.({chosen})"
            rows = await self._send_logs.select(query)
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
        await self._send_logs.insert(rows)


def _subscriber(row: Mapping[str, Any]) -> Subscriber:
    name = row.get("from_name")
    return Subscriber(str(row.get("email") or ""), " ".join(name.split()) or None if isinstance(name, str) else None)
