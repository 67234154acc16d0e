"""Where the readers of a mailout are: Supabase's subscribers or, where there is no Supabase, contacts of ours."""

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
    """`place` says where somebody would look for them."""

    @property
    def place(self) -> str: ...

    def pages(self, tenant_id: int) -> AsyncIterator[list[tuple[str, str | None]]]:
        """Address and From name of everybody who is active."""
        ...


class SupabaseAudience:
    place = "no subscriber in Supabase is active"

    def __init__(self, supabase: Supabase) -> None:
        self._supabase = supabase

    async def pages(self, tenant_id: int) -> AsyncIterator[list[tuple[str, str | None]]]:
        await self._supabase.probe()
        async for page in self._supabase.active():
            yield [(each.email, each.from_name) for each in page]


class ContactAudience:
    place = "no contact of ours is active; set SUPABASE_URL if subscribers are in Supabase"

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
