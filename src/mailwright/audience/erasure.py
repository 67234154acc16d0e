"""Erasing: everything that tells who a person is goes, from contacts and from what was sent; the accounts stay whole.

The messages keep their rows, states and times, so that the audit still adds up. The address itself is kept in one place
only, as someone who left: without it the next import or signup would write to them again.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import orjson
from sqlalchemy import ColumnElement, delete, func, or_, select, update

from mailwright.audience import status
from mailwright.audience.contacts import Contact, contact_columns, contact_from_row
from mailwright.audience.importing.report import redact_address, report_path
from mailwright.audience.importing.store import ERASURE
from mailwright.domain.clock import Clock, Instant
from mailwright.domain.errors import NotFound, NotPossibleNow
from mailwright.domain.message import Event
from mailwright.domain.states import CLAIMABLE, EventType, Status
from mailwright.domain.unsubscribe_tokens import GENERAL
from mailwright.outbox import audit_log as journal
from mailwright.outbox.operations import CANCEL
from mailwright.outbox.settle import APPEND_EVENTS, event_row
from mailwright.storage.database import Database, Transaction
from mailwright.storage.statements import statement
from mailwright.storage.tables import (
    audit_log,
    contact_tags,
    contacts,
    dead_letters,
    deliveries,
    events,
    imports,
    mailout_errors,
    mailout_recipients,
    mailouts,
    messages,
    queue_entries,
    reports,
    subscriptions,
    suppressions,
)

KEEP_AWAY = statement(__package__, "keep_away")

ERASED_SUBJECT: Final = "(erased)"
_BETWEEN_STATES: Final = (Status.SENT_ATTEMPT, Status.IN_DOUBT)
# A person has few messages; a statement takes so many keys at once.
_AT_ONCE: Final = 500


class MessageInProgress(NotPossibleNow):
    """A mail to this person is under way."""

    code = "MAIL_UNDER_WAY"


async def erase(
    database: Database, clock: Clock, tenant_id: int, email: str, *, actor: str, imports_folder: Path | None = None
) -> int:
    """How many messages were emptied. What waits to be sent is cancelled; what is being sent has to end first.

    `imports_folder` is where this machine keeps what was told of the files that people were imported from.
    """
    address, now = status.normalize_email(email), clock.now()
    # A look through all mails takes its time, and nobody who writes should wait for it.
    async with database.read() as tx:
        await _person(tx, tenant_id, address)
        copies = await _copied_to(tx, tenant_id, address)
        told = await tx.execute(select(imports.c.import_id).where(imports.c.tenant_id == tenant_id))
    if imports_folder is not None:
        # Before the rest: whoever is erased is in no report then, and whoever cannot be yet is only told of less.
        reports_of = [report_path(imports_folder, row.import_id) for row in told]
        await asyncio.to_thread(_forget_in_reports, reports_of, address)
    async with database.write() as tx:
        await _hold_imports(tx, tenant_id)
        person = await _person(tx, tenant_id, address, to_change=True)
        keys = await _stop_mail(tx, tenant_id, address, now)
        stand_in = f"erased+{person.contact_id}@invalid"
        for start in range(0, len(keys), _AT_ONCE):
            await _empty(tx, keys[start : start + _AT_ONCE], stand_in, address)
        await _take_out_of_copies(tx, copies, address)
        await _forget_in_mailouts(tx, tenant_id, address)
        await _forget_place(tx, tenant_id, address)
        await _forget_person(tx, tenant_id, person, stand_in, now)
        await _keep_away(tx, tenant_id, address, now)
        await journal.record(
            tx,
            now,
            actor=actor,
            action="contact.erase",
            subject=person.contact_id,
            tenant_id=tenant_id,
            detail={"messages": len(keys)},
        )
    return len(keys)


def _forget_in_reports(paths: Sequence[Path], address: str) -> None:
    for path in paths:
        redact_address(path, address)


async def _hold_imports(tx: Transaction, tenant_id: int) -> None:
    """Portions of files come before the erasure or after it: one that began earlier and ended later would store the
    person anew."""
    running = (imports.c.tenant_id == tenant_id, imports.c.finished_at.is_(None))
    await tx.execute(select(imports.c.id).where(*running).order_by(imports.c.id).with_for_update())


async def _person(tx: Transaction, tenant_id: int, email: str, *, to_change: bool = False) -> Contact:
    mine = (contacts.c.tenant_id == tenant_id, contacts.c.email == email)
    query = select(*contact_columns()).where(*mine)
    rows = await tx.execute(query.with_for_update() if to_change else query)
    if not rows:
        raise NotFound
    return contact_from_row(rows[0])


async def _stop_mail(tx: Transaction, tenant_id: int, email: str, now: Instant) -> list[int]:
    """The keys of all messages to the person, none of which will move any more."""
    found = await tx.execute(
        select(messages.c.id, messages.c.outbox_id, deliveries.c.status)
        .join_from(messages, deliveries, deliveries.c.message_key == messages.c.id)
        .where(messages.c.tenant_id == tenant_id, messages.c.to_email == email)
        .order_by(messages.c.id)
    )
    for row in found:
        if row.status in CLAIMABLE and await tx.run(CANCEL, message_key=row.id, now=now):
            event = Event(EventType.CANCELLED, now, {"previousStatus": row.status})
            await tx.run(APPEND_EVENTS, events=[event_row(row.id, tenant_id, event)])
        elif row.status in (*_BETWEEN_STATES, *CLAIMABLE):
            raise MessageInProgress(
                f"the message {row.outbox_id} is {row.status}; erase the person once it has an end "
                "(`mailwright message resolve` gives one to a doubt)"
            )
    return [row.id for row in found]


async def _empty(tx: Transaction, keys: list[int], stand_in: str, address: str) -> None:
    # Whoever asked for the mail may have named it after the person.
    named = or_(*(_holds(column, address) for column in (messages.c.request_id, messages.c.dedupe_key)))
    await tx.execute(
        update(messages).where(messages.c.id.in_(keys), named).values(request_id=messages.c.outbox_id, dedupe_key=None)
    )
    await tx.execute(
        update(messages)
        .where(messages.c.id.in_(keys))
        .values(to_email=stand_in, subject=ERASED_SUBJECT, payload="{}", recipient_id=None, external_id=None)
    )
    await tx.execute(update(deliveries).where(deliveries.c.message_key.in_(keys)).values(error_reason=None))
    await tx.execute(update(events).where(events.c.message_key.in_(keys)).values(metadata="{}"))
    await tx.execute(update(dead_letters).where(dead_letters.c.message_key.in_(keys)).values(reason=ERASED_SUBJECT))


async def _forget_in_mailouts(tx: Transaction, tenant_id: int, address: str) -> None:
    """Whoever is on the list of one that is being prepared, and whoever an error names."""
    runs = select(mailouts.c.id).where(mailouts.c.tenant_id == tenant_id)
    listed = (mailout_recipients.c.mailout_key.in_(runs), mailout_recipients.c.email == address)
    await tx.execute(delete(mailout_recipients).where(*listed))
    named = or_(mailout_errors.c.email == address, _holds(mailout_errors.c.message, address))
    emptied = {"email": None, "message": ERASED_SUBJECT}
    await tx.execute(update(mailout_errors).where(mailout_errors.c.mailout_key.in_(runs), named).values(**emptied))


async def _copied_to(tx: Transaction, tenant_id: int, address: str) -> list[int]:
    """Mails to others that may name the person in copy."""
    mine = (messages.c.tenant_id == tenant_id, messages.c.to_email != address, _holds(messages.c.payload, address))
    return [row.id for row in await tx.execute(select(messages.c.id).where(*mine))]


async def _take_out_of_copies(tx: Transaction, keys: list[int], address: str) -> None:
    for start in range(0, len(keys), _AT_ONCE):
        some = messages.c.id.in_(keys[start : start + _AT_ONCE])
        for row in await tx.execute(select(messages.c.id, messages.c.payload).where(some)):
            payload = orjson.loads(row.payload)
            others = {
                kind: [each for each in payload[kind] if each.strip().lower() != address]
                for kind in ("cc", "bcc")
                if payload.get(kind)
            }
            if any(others[kind] != payload[kind] for kind in others):
                text = orjson.dumps({**payload, **others}).decode()
                await tx.execute(update(messages).where(messages.c.id == row.id).values(payload=text))


async def _forget_place(tx: Transaction, tenant_id: int, address: str) -> None:
    """A campaign's walk that ended with the person goes on from whoever came before them."""
    before = select(func.max(contacts.c.email)).where(contacts.c.tenant_id == tenant_id, contacts.c.email < address)
    mine = (queue_entries.c.tenant_id == tenant_id, queue_entries.c.enqueued_to == address)
    await tx.execute(update(queue_entries).where(*mine).values(enqueued_to=func.coalesce(before.scalar_subquery(), "")))


def _holds(column: ColumnElement[str], address: str) -> ColumnElement[bool]:
    return func.lower(column).contains(address, autoescape=True)


async def _forget_person(tx: Transaction, tenant_id: int, person: Contact, stand_in: str, now: Instant) -> None:
    await tx.execute(delete(contact_tags).where(contact_tags.c.contact_key == person.id))
    await tx.execute(delete(subscriptions).where(subscriptions.c.contact_key == person.id))
    nothing = dict.fromkeys(("name", "locale", "timezone", "bounce_type", "bounce_subtype"))
    await tx.execute(
        update(contacts)
        .where(contacts.c.id == person.id)
        .values(**nothing, email=stand_in, attributes="{}", deleted_at=now, status_source=ERASURE)
    )
    told_of = (reports.c.tenant_id == tenant_id, reports.c.email == person.email)
    await tx.execute(update(reports).where(*told_of).values(email=None))
    noted = (audit_log.c.tenant_id == tenant_id, audit_log.c.subject == person.email)
    await tx.execute(update(audit_log).where(*noted).values(subject=stand_in, detail="{}"))


async def _keep_away(tx: Transaction, tenant_id: int, email: str, now: Instant) -> None:
    """Which lists they left is personal; that they want no bulk mail is what must be remembered."""
    mine = (suppressions.c.tenant_id == tenant_id, suppressions.c.email == email)
    await tx.execute(delete(suppressions).where(*mine, suppressions.c.list_key != "*"))
    said = {"list_key": GENERAL, "reason": status.SuppressionReason.UNSUBSCRIBED.value, "source": ERASURE}
    await tx.run(KEEP_AWAY, tenant_id=tenant_id, email=email, now=now, **said)
