"""Standings: whoever bounced, left or came back is told to Supabase, until Supabase has it.

What is to be told is not a queue but a difference: between what a contact is and what Supabase was told last. So
nothing is forgotten in a crash, and what changed twice is told once.
"""

from typing import Any, Final

from sqlalchemy import ColumnElement, Select, and_, delete, insert, or_, select

from mailwright.domain.clock import MINUTE, Clock, Instant
from mailwright.ops.logs import logger
from mailwright.sources.mailouts.supabase import SubscriberStatus, Supabase, SupabaseRefused
from mailwright.storage.database import Database
from mailwright.storage.tables import contacts, supabase_status_updates

AT_ONCE: Final = 100
# One person whom Supabase does not take must not keep the others waiting.
PASSED_OVER_FOR: Final = 10 * MINUTE

# Refusals that concern everybody: there is no use in asking for the next one.
OF_ALL: Final = (
    "SUPABASE_UNAUTHORIZED",
    "SUPABASE_NO_TABLE",
    "SUPABASE_NO_COLUMN",
    "SUPABASE_KEY_SEES_NOTHING",
)

log = logger(__name__)


class StatusSync:
    def __init__(self, database: Database, clock: Clock, tenant_id: int, supabase: Supabase) -> None:
        self._database = database
        self._clock = clock
        self._tenant_id = tenant_id
        self._supabase = supabase
        self._passed_over: dict[int, Instant] = {}

    async def tick(self) -> int:
        """How many were told; raises where Supabase is out of reach or takes nothing at all."""
        now = self._clock.now()
        self._passed_over = {key: until for key, until in self._passed_over.items() if until > now}
        told = 0
        for person in await self._untold():
            try:
                await self._supabase.update_status(_standing(person, now))
            except SupabaseRefused as refused:
                if refused.code in OF_ALL:
                    raise
                log.warning("standing_not_told", contact=person.contact_id, reason=str(refused))
                self._passed_over[person.id] = now + PASSED_OVER_FOR
                continue
            await self._note(person)
            told += 1
        return told

    async def _untold(self) -> list[Any]:
        async with self._database.read() as tx:
            return [row for query in (self._gone(), self._returned()) for row in await tx.execute(query)]

    def _gone(self) -> Select[Any]:
        is_new = or_(
            supabase_status_updates.c.contact_key.is_(None),
            supabase_status_updates.c.status != contacts.c.status,
            supabase_status_updates.c.status_at.is_distinct_from(contacts.c.status_updated_at),
        )
        people = select(*_columns()).outerjoin(
            supabase_status_updates, supabase_status_updates.c.contact_key == contacts.c.id
        )
        return self._some(people.where(contacts.c.status != "active", is_new))

    def _returned(self) -> Select[Any]:
        """Only those of whom we ourselves said that they had left."""
        people = select(*_columns()).join(
            supabase_status_updates, supabase_status_updates.c.contact_key == contacts.c.id
        )
        return self._some(
            people.where(contacts.c.status == "active", supabase_status_updates.c.status == "unsubscribed")
        )

    def _some(self, people: Select[Any]) -> Select[Any]:
        mine: ColumnElement[bool] = and_(contacts.c.tenant_id == self._tenant_id, contacts.c.deleted_at.is_(None))
        others = contacts.c.id.not_in(list(self._passed_over))
        return people.where(mine, others).order_by(contacts.c.id).limit(AT_ONCE)

    async def _note(self, person: Any) -> None:
        values = {"status": person.status, "status_at": person.status_updated_at, "reported_at": self._clock.now()}
        async with self._database.write() as tx:
            await tx.execute(delete(supabase_status_updates).where(supabase_status_updates.c.contact_key == person.id))
            await tx.execute(insert(supabase_status_updates).values(contact_key=person.id, **values))


def _columns() -> list[ColumnElement[Any]]:
    names = ("id", "contact_id", "email", "status", "status_updated_at", "bounce_type", "bounce_subtype")
    return [contacts.c[name] for name in names]


def _standing(person: Any, now: Instant) -> SubscriberStatus:
    at = person.status_updated_at or now
    return SubscriberStatus(person.email, person.status, at, person.bounce_type, person.bounce_subtype)
