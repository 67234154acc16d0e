"""Sync the status of contacts that bounced, unsubscribed or resubscribed to Supabase.

Reports about addresses to which no message was sent are compared with the subscribers in Supabase.
"""

from typing import Any, Final

from sqlalchemy import delete, select

from mailwright.audience.status import ContactStatus, StatusFact, apply_facts, verdict_fact
from mailwright.domain.clock import Clock, Instant
from mailwright.domain.report import ContactVerdict
from mailwright.ops.logs import logger
from mailwright.sources.contact_status_sync import BATCH_SIZE, SKIP_DURATION, ContactStatusSync
from mailwright.sources.mailouts.supabase import StatusWrite, SubscriberStatus, Supabase, SupabaseRefused
from mailwright.storage.database import Database
from mailwright.storage.tables import subscriber_reports, supabase_status_updates

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
        self._contacts = ContactStatusSync(database, clock, tenant_id, supabase_status_updates, self._write_contact)
        self._skipped_until: dict[str, Instant] = {}  # by the key of a report

    async def tick(self) -> int:
        """Sync a batch and return its size. Raises if Supabase is unavailable or refuses every contact."""
        return await self._contacts.tick() + await self._compare_reports(self._clock.now())

    async def _write_contact(self, contact: Any, status: SubscriberStatus) -> StatusWrite | None:
        written = await self._write(contact.id, status)
        if written is StatusWrite.MISSING:
            log.warning("subscriber_not_in_supabase", contact=contact.contact_id, status=contact.status)
        return written

    async def _write(self, key: int | str, status: SubscriberStatus) -> StatusWrite | None:
        """Write a status. Return None if Supabase refuses it; it is then skipped for a while."""
        try:
            return await self._supabase.update_status(status)
        except SupabaseRefused as refused:
            if refused.code in GENERAL_REFUSALS:
                raise
            log.warning("subscriber_status_refused", contact=key, code=refused.code, reason=str(refused))
            return None

    async def _compare_reports(self, now: Instant) -> int:
        """Apply reports about subscribers that are only in Supabase, and discard those about unknown addresses."""
        r = subscriber_reports.c
        skipped = self._skipped_until = {key: until for key, until in self._skipped_until.items() if until > now}
        async with self._database.read() as tx:
            query = select(subscriber_reports).where(r.key.not_in(list(skipped))).order_by(r.at, r.key)
            rows = await tx.execute(query.limit(BATCH_SIZE))
        compared = 0
        for row in rows:
            fact = _fact_of(row, self._tenant_id)
            written = await self._write(row.key, _status_after(fact))
            if written is None:
                skipped[row.key] = now + SKIP_DURATION
                continue
            async with self._database.write() as tx:
                if written is not StatusWrite.MISSING:
                    await apply_facts(tx, [fact], now)
                await tx.execute(delete(subscriber_reports).where(r.key == row.key))
            compared += 1
        return compared


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
