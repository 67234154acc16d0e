"""Let contacts pause bulk email for a while. Transactional email is not affected."""

from typing import Final

from sqlalchemy import update

from mailwright.audience.contact_fields import InvalidContact
from mailwright.domain.address import normal
from mailwright.domain.clock import DAY, Clock, Instant, isoformat
from mailwright.domain.errors import NotFound
from mailwright.outbox import audit_log
from mailwright.outbox.defer import end_snooze_deferrals
from mailwright.storage.database import Database, Transaction
from mailwright.storage.tables import contacts

# The pauses that the preference page offers, in days: a week, a month, three months.
OFFERED_DAYS: Final = (7, 30, 90)
MAX_DAYS: Final = 366


async def snooze(
    database: Database, clock: Clock, tenant_id: int, email: str, until: Instant | None, *, actor: str
) -> None:
    """Pause bulk email to a contact until a time, or end the pause if it is None."""
    now = clock.now()
    if until is not None and not now < until <= now + MAX_DAYS * DAY:
        raise InvalidContact(
            "The pause must end in the future, within {max_days} days.", field="until", max_days=MAX_DAYS
        )
    async with database.write() as tx:
        if not await set_snooze(tx, tenant_id, normal(email), until, now, actor=actor):
            raise NotFound("There is no such contact.")


async def set_snooze(
    tx: Transaction, tenant_id: int, email: str, until: Instant | None, now: Instant, *, actor: str
) -> bool:
    """Store a pause, and check messages again that an earlier pause deferred.

    Return False if the contact is unknown.
    """
    contact = (contacts.c.tenant_id == tenant_id, contacts.c.email == email, contacts.c.deleted_at.is_(None))
    changed = update(contacts).where(*contact).values(snoozed_until=until).returning(contacts.c.id)
    if not await tx.execute(changed):
        return False
    await end_snooze_deferrals(tx, tenant_id, email, now)
    await audit_log.record(
        tx,
        now,
        actor=actor,
        action="contact.snooze" if until is not None else "contact.end_snooze",
        subject=email,
        tenant_id=tenant_id,
        detail={"until": isoformat(until)} if until is not None else {},
    )
    return True
