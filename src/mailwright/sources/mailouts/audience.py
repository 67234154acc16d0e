"""The audience of a mailout: subscribers in Supabase or, without Supabase, contacts of Mailwright."""

from collections.abc import AsyncIterator
from typing import Protocol

from sqlalchemy import select

from mailwright.audience.segments import audience
from mailwright.domain.clock import Clock
from mailwright.sources.mailouts.supabase import Supabase
from mailwright.storage.database import Database
from mailwright.storage.tables import contacts

PAGE = 5_000


class MailoutAudience(Protocol):
    """`empty_reason` explains why there may be no recipients."""

    @property
    def empty_reason(self) -> str: ...

    def pages(self, tenant_id: int) -> AsyncIterator[list[tuple[str, str | None]]]:
        """Yield the address and From name of all active subscribers."""
        ...


class SupabaseAudience:
    empty_reason = "no subscriber in Supabase is active"

    def __init__(self, supabase: Supabase) -> None:
        self._supabase = supabase

    async def pages(self, tenant_id: int) -> AsyncIterator[list[tuple[str, str | None]]]:
        await self._supabase.probe()
        async for page in self._supabase.active():
            yield [(each.email, each.from_name) for each in page]


class ContactAudience:
    empty_reason = "no contact is active; set SUPABASE_URL if your subscribers are in Supabase"

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def pages(self, tenant_id: int) -> AsyncIterator[list[tuple[str, str | None]]]:
        last = ""
        while True:
            people = audience(tenant_id, (), None, self._clock.now())
            query = select(contacts.c.email).where(people, contacts.c.email > last).order_by(contacts.c.email)
            async with self._database.read() as tx:
                rows = await tx.execute(query.limit(PAGE))
            if not rows:
                return
            last = rows[-1].email
            yield [(row.email, None) for row in rows]
