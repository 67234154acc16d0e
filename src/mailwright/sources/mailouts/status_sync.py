"""Sync the status of contacts that bounced, unsubscribed or resubscribed to Supabase.

There is no queue: a contact is synced if its status differs from the last synced status. So a crash loses nothing, and
two changes in a row are synced once. Reports about addresses to which no message was sent are compared with the
subscribers in Supabase.
"""

from typing import Any, Final

from sqlalchemy import ColumnElement, Select, and_, delete, insert, or_, select

from mailwright.audience.status import ContactStatus, StatusFact, apply_facts, verdict_fact
from mailwright.domain.clock import MINUTE, Clock, Instant
from mailwright.domain.report import ContactVerdict
from mailwright.ops.logs import logger
from mailwright.sources.mailouts.supabase import StatusWrite, SubscriberStatus, Supabase, SupabaseRefused
from mailwright.storage.database import Database
from mailwright.storage.tables import contacts, subscriber_reports, supabase_status_updates

BATCH_SIZE: Final = 100
# A contact that Supabase refuses is skipped for a while, so that it does not block the others.
SKIP_DURATION: Final = 10 * MINUTE

# Refusals that apply to every contact, so that trying the next one is useless.
GENERAL_REFUSALS: Final = (
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
        self._skipped_until: dict[int | str, Instant] = {}

    async def tick(self) -> int:
        """Sync a batch and return its size. Raises if Supabase is unavailable or refuses every contact."""
        now = self._clock.now()
        self._skipped_until = {key: until for key, until in self._skipped_until.items() if until > now}
        synced = 0
        for contact in await self._unsynced():
            written = await self._write(contact.id, _status_of(contact, now))
            if written is None:
                continue
            if written is StatusWrite.MISSING:
                log.warning("subscriber_not_in_supabase", contact=contact.contact_id, status=contact.status)
            await self._record(contact)
            synced += 1
        return synced + await self._compare_reports(now)

    async def _write(self, key: int | str, status: SubscriberStatus) -> StatusWrite | None:
        """Write a status. Return None if Supabase refuses it; the contact is then skipped for a while."""
        try:
            return await self._supabase.update_status(status)
        except SupabaseRefused as refused:
            if refused.code in GENERAL_REFUSALS:
                raise
            log.warning("subscriber_status_refused", contact=key, code=refused.code, reason=str(refused))
            self._skipped_until[key] = self._clock.now() + SKIP_DURATION
            return None

    async def _compare_reports(self, now: Instant) -> int:
        """Apply reports about subscribers that are only in Supabase, and discard those about unknown addresses."""
        r = subscriber_reports.c
        skipped = [key for key in self._skipped_until if isinstance(key, str)]
        async with self._database.read() as tx:
            query = select(subscriber_reports).where(r.key.not_in(skipped)).order_by(r.at, r.key)
            rows = await tx.execute(query.limit(BATCH_SIZE))
        compared = 0
        for row in rows:
            fact = _fact_of(row, self._tenant_id)
            written = await self._write(row.key, _status_after(fact))
            if written is None:
                continue
            async with self._database.write() as tx:
                if written is not StatusWrite.MISSING:
                    await apply_facts(tx, [fact], now)
                await tx.execute(delete(subscriber_reports).where(r.key == row.key))
            compared += 1
        return compared

    async def _unsynced(self) -> list[Any]:
        async with self._database.read() as tx:
            return [row for query in (self._inactive(), self._resubscribed()) for row in await tx.execute(query)]

    def _inactive(self) -> Select[Any]:
        is_new = or_(
            supabase_status_updates.c.contact_key.is_(None),
            supabase_status_updates.c.status != contacts.c.status,
            supabase_status_updates.c.status_at.is_distinct_from(contacts.c.status_updated_at),
        )
        selected = select(*_columns()).outerjoin(
            supabase_status_updates, supabase_status_updates.c.contact_key == contacts.c.id
        )
        return self._batch(selected.where(contacts.c.status != "active", is_new))

    def _resubscribed(self) -> Select[Any]:
        """Select contacts that resubscribed after we wrote their unsubscribe to Supabase."""
        selected = select(*_columns()).join(
            supabase_status_updates, supabase_status_updates.c.contact_key == contacts.c.id
        )
        return self._batch(
            selected.where(contacts.c.status == "active", supabase_status_updates.c.status == "unsubscribed")
        )

    def _batch(self, selected: Select[Any]) -> Select[Any]:
        mine: ColumnElement[bool] = and_(contacts.c.tenant_id == self._tenant_id, contacts.c.deleted_at.is_(None))
        others = contacts.c.id.not_in([key for key in self._skipped_until if isinstance(key, int)])
        return selected.where(mine, others).order_by(contacts.c.id).limit(BATCH_SIZE)

    async def _record(self, contact: Any) -> None:
        values = {"status": contact.status, "status_at": contact.status_updated_at, "reported_at": self._clock.now()}
        async with self._database.write() as tx:
            await tx.execute(delete(supabase_status_updates).where(supabase_status_updates.c.contact_key == contact.id))
            await tx.execute(insert(supabase_status_updates).values(contact_key=contact.id, **values))


def _columns() -> list[ColumnElement[Any]]:
    names = ("id", "contact_id", "email", "status", "status_updated_at", "bounce_type", "bounce_subtype")
    return [contacts.c[name] for name in names]


def _fact_of(row: Any, tenant_id: int) -> StatusFact:
    fact = verdict_fact(
        ContactVerdict(row.verdict),
        tenant_id,
        row.email,
        source=row.source,
        at=row.at,
        bounce_type=row.bounce_type,
        bounce_subtype=row.bounce_subtype,
    )
    assert fact is not None, "only verdicts with a consequence are stored"
    return fact


def _status_after(fact: StatusFact) -> SubscriberStatus:
    status = fact.status or ContactStatus.UNSUBSCRIBED
    return SubscriberStatus(fact.email, status, fact.at, fact.bounce_type, fact.bounce_subtype)


def _status_of(contact: Any, now: Instant) -> SubscriberStatus:
    at = contact.status_updated_at or now
    return SubscriberStatus(contact.email, contact.status, at, contact.bounce_type, contact.bounce_subtype)
