"""Erase a contact: remove personal data from contacts and from sent messages, and keep the totals correct.

Messages keep their rows, states and times, so that the audit still adds up. The address itself remains only as a
suppression, because otherwise the contact could receive email again after the next import or sign-up.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson
from sqlalchemy import ColumnElement, Table, delete, func, or_, select, update

from mailwright.audience import status
from mailwright.audience.contact_events import erase_events, has_events
from mailwright.audience.contact_fields import normalize_email
from mailwright.audience.contacts import Contact, contact_columns, contact_from_row
from mailwright.audience.enrolments import end_of_contact
from mailwright.audience.erasure_record import ErasureRecord, digest_of
from mailwright.audience.external_ids import delete_external_ids
from mailwright.audience.importing.report import move_reports, redact_address, report_path
from mailwright.audience.importing.store import ERASURE
from mailwright.audience.subscription_events import CONTACT_KEY
from mailwright.domain.clock import Clock, Instant
from mailwright.domain.errors import NotFound, NotPossibleNow
from mailwright.domain.message import FORWARDED_REPLY, Source
from mailwright.domain.states import CLAIMABLE, Status
from mailwright.domain.unsubscribe_tokens import GENERAL
from mailwright.outbox import audit_log as audit
from mailwright.outbox.operations import cancel_waiting
from mailwright.storage.database import Database, Transaction
from mailwright.storage.statements import statement
from mailwright.storage.tables import (
    audit_log,
    bulk_sends,
    contact_tags,
    contacts,
    dead_letters,
    deleted_messages,
    deleted_subscriptions,
    deliveries,
    events,
    form_submissions,
    imports,
    mailout_errors,
    mailout_recipients,
    mailouts,
    messages,
    queue_entries,
    raw_contents,
    reports,
    subscriber_reports,
    subscriptions,
    suppressions,
    webhook_deliveries,
)

SUPPRESS_ERASED = statement(__package__, "suppress_erased")

ERASED_SUBJECT: Final = "(erased)"
_IN_PROGRESS: Final = (Status.SENT_ATTEMPT, Status.IN_DOUBT)
# Maximum number of message keys in one statement. Most contacts have fewer messages.
_BATCH_SIZE: Final = 500
# Rows before the newest one whose transactions may not have been committed when a search began.
_UNCOMMITTED: Final = 20_000


class MessageInProgress(NotPossibleNow):
    """A message to this contact is being sent."""

    code = "MAIL_UNDER_WAY"

    def __init__(self, outbox_id: str, status_: str) -> None:
        super().__init__(
            "The message {outbox_id} is {status}. Erase the contact once the message is sent, failed or resolved.",
            outbox_id=outbox_id,
            status=status_,
        )
        self.outbox_id = outbox_id


async def erase(
    database: Database,
    clock: Clock,
    tenant_id: int,
    email: str,
    *,
    actor: str,
    imports_folder: Path | None = None,
    record: ErasureRecord | None = None,
) -> int:
    """Erase a contact and return the number of erased messages. Pending messages are cancelled.

    Raise `MessageInProgress` if a message is being sent or in doubt. `imports_folder` contains this machine's import
    reports. `record` keeps the erasure from being undone by a restore.
    """
    address, now = normalize_email(email), clock.now()
    count = await _erase(database, tenant_id, address, now, actor=actor, imports_folder=imports_folder)
    if record is not None:
        await asyncio.to_thread(record.add, [(now, digest_of(tenant_id, address))])
    return count


async def _erase(
    database: Database, tenant_id: int, address: str, now: Instant, *, actor: str, imports_folder: Path | None
) -> int:
    # Searching all messages takes long, so it happens outside of the write transaction.
    async with database.read() as tx:
        is_contact = await _is_contact(tx, tenant_id, address)
    if not is_contact:
        await _erase_without_contact(database, tenant_id, address, actor, now)
        return 0
    async with database.read() as tx:
        found = await _search(tx, tenant_id, address)
        import_rows = await tx.execute(select(imports.c.import_id).where(imports.c.tenant_id == tenant_id))
    if imports_folder is not None:
        # Redact the reports first. If the erasure fails afterwards, only the address is missing from the reports.
        report_paths = [report_path(imports_folder, row.import_id) for row in import_rows]
        report_paths += move_reports(imports_folder, tenant_id)
        await asyncio.to_thread(_redact_reports, report_paths, address)
    async with database.write() as tx:
        await _lock_imports(tx, tenant_id)
        contact = await _contact(tx, tenant_id, address, for_update=True)
        # Find the rows that were stored since the search. Steps of sequences lock the contact, so they store no more
        # rows now.
        found = await _search(tx, tenant_id, address, found)
        keys = await _stop_messages(tx, tenant_id, address, now)
        await _erase_raw_contents(tx, tenant_id, address)
        placeholder = f"erased+{contact.contact_id}@invalid"
        for start in range(0, len(keys), _BATCH_SIZE):
            await _erase_messages(tx, keys[start : start + _BATCH_SIZE], placeholder, address)
        await _erase_forwarded_replies(tx, tenant_id, found.copies, address)
        await _erase_team_notifications(tx, tenant_id, found.copies, now)
        await _erase_step_requests(tx, found.step_requests)
        await _remove_from_copies(tx, found.copies, address)
        await _erase_from_mailouts(tx, tenant_id, address)
        await _move_cursors(tx, tenant_id, address)
        await _erase_contact(tx, tenant_id, contact, placeholder, now)
        await _suppress(tx, tenant_id, address, now)
        await delete_external_ids(tx, tenant_id, address)
        await erase_events(tx, tenant_id, address)
        await audit.record(
            tx,
            now,
            actor=actor,
            action="contact.erase",
            subject=contact.contact_id,
            tenant_id=tenant_id,
            detail={"messages": len(keys)},
        )
    return len(keys)


@dataclass(frozen=True, slots=True)
class _Found:
    """The keys of messages to others and of webhook requests that contain data of the contact."""

    copies: list[int]
    step_requests: list[int]
    newest_message: int
    newest_request: int


async def _search(tx: Transaction, tenant_id: int, address: str, earlier: _Found | None = None) -> _Found:
    """Search all messages and webhook requests, or only those that an earlier search cannot have seen."""
    newest_message, newest_request = await _newest(tx, messages), await _newest(tx, webhook_deliveries)
    if earlier is None:
        copies = await _copied_to(tx, tenant_id, address, 0)
        return _Found(copies, await _find_step_requests(tx, tenant_id, address, 0), newest_message, newest_request)
    copies = await _copied_to(tx, tenant_id, address, earlier.newest_message - _UNCOMMITTED)
    requests = await _find_step_requests(tx, tenant_id, address, earlier.newest_request - _UNCOMMITTED)
    return _Found(
        sorted({*earlier.copies, *copies}),
        sorted({*earlier.step_requests, *requests}),
        newest_message,
        newest_request,
    )


async def _newest(tx: Transaction, table: Table) -> int:
    return int((await tx.execute(select(func.coalesce(func.max(table.c.id), 0).label("id"))))[0].id)


async def _is_contact(tx: Transaction, tenant_id: int, address: str) -> bool:
    """Return whether the address is a contact, or raise if nothing is stored about it."""
    try:
        await _contact(tx, tenant_id, address)
    except NotFound:
        if not await has_events(tx, tenant_id, address):
            raise
        return False
    return True


async def _erase_without_contact(database: Database, tenant_id: int, address: str, actor: str, now: Instant) -> None:
    """Erase the events of an address that never became a contact."""
    async with database.write() as tx:
        await _suppress(tx, tenant_id, address, now)
        await delete_external_ids(tx, tenant_id, address)
        await erase_events(tx, tenant_id, address)
        await audit.record(
            tx,
            now,
            actor=actor,
            action="contact.erase",
            subject=ERASED_SUBJECT,
            tenant_id=tenant_id,
            detail={"messages": 0},
        )


def _redact_reports(paths: Sequence[Path], address: str) -> None:
    for path in paths:
        redact_address(path, address)


async def _lock_imports(tx: Transaction, tenant_id: int) -> None:
    """Wait for running import batches, because a batch that commits after the erasure would store the contact again."""
    running = (imports.c.tenant_id == tenant_id, imports.c.finished_at.is_(None))
    await tx.execute(select(imports.c.id).where(*running).order_by(imports.c.id).with_for_update())


async def _contact(tx: Transaction, tenant_id: int, email: str, *, for_update: bool = False) -> Contact:
    matching = (contacts.c.tenant_id == tenant_id, contacts.c.email == email)
    query = select(*contact_columns()).where(*matching)
    rows = await tx.execute(query.with_for_update() if for_update else query)
    if not rows:
        raise NotFound("There is no such contact.")
    return contact_from_row(rows[0])


async def _stop_messages(tx: Transaction, tenant_id: int, email: str, now: Instant) -> list[int]:
    """Cancel pending messages and return the keys of all messages to the contact. These can no longer change."""
    rows = await tx.execute(
        select(messages.c.id, messages.c.outbox_id, deliveries.c.status)
        .join_from(messages, deliveries, deliveries.c.message_key == messages.c.id)
        .where(messages.c.tenant_id == tenant_id, messages.c.to_email == email)
        .order_by(messages.c.id)
    )
    await _cancel_unsent(tx, tenant_id, rows, now)
    return [row.id for row in rows]


async def _cancel_unsent(tx: Transaction, tenant_id: int, rows: Sequence[Any], now: Instant) -> None:
    for row in rows:
        if row.status in CLAIMABLE and await cancel_waiting(tx, row.id, tenant_id, row.status, now):
            continue
        if row.status in (*_IN_PROGRESS, *CLAIMABLE):
            raise MessageInProgress(row.outbox_id, row.status)


async def _erase_raw_contents(tx: Transaction, tenant_id: int, address: str) -> None:
    """Delete the stored raw emails that applications sent to the contact, which deletes them for their other recipients
    too.

    Raise `MessageInProgress` if one of these emails must still be sent, because it cannot be sent without its content.
    """
    m, d = messages.c, deliveries.c
    mine = select(m.content_digest).where(
        m.tenant_id == tenant_id, m.to_email == address, m.content_digest.is_not(None)
    )
    unfinished = (*_IN_PROGRESS, *CLAIMABLE)
    waiting = (m.tenant_id == tenant_id, m.content_digest.in_(mine), d.status.in_(unfinished))
    query = select(m.outbox_id, d.status).join_from(messages, deliveries, d.message_key == m.id).where(*waiting)
    for row in await tx.execute(query.limit(1)):
        raise MessageInProgress(row.outbox_id, row.status)
    c = raw_contents.c
    await tx.execute(delete(raw_contents).where(c.tenant_id == tenant_id, c.digest.in_(mine)))


async def _erase_messages(tx: Transaction, keys: list[int], placeholder: str, address: str) -> None:
    # The sender may have put the address into the request ID or the idempotency key.
    named = or_(*(_contains(column, address) for column in (messages.c.request_id, messages.c.dedupe_key)))
    await tx.execute(
        update(messages).where(messages.c.id.in_(keys), named).values(request_id=messages.c.outbox_id, dedupe_key=None)
    )
    await tx.execute(
        update(messages)
        .where(messages.c.id.in_(keys))
        .values(
            to_email=placeholder,
            subject=ERASED_SUBJECT,
            payload="{}",
            recipient_id=None,
            external_id=None,
            content_digest=None,
        )
    )
    await tx.execute(update(deliveries).where(deliveries.c.message_key.in_(keys)).values(error_reason=None))
    await tx.execute(update(events).where(events.c.message_key.in_(keys)).values(metadata="{}"))
    await tx.execute(update(dead_letters).where(dead_letters.c.message_key.in_(keys)).values(reason=ERASED_SUBJECT))


async def _erase_from_mailouts(tx: Transaction, tenant_id: int, address: str) -> None:
    """Remove the address from mailouts in preparation and from their errors."""
    runs = select(mailouts.c.id).where(mailouts.c.tenant_id == tenant_id)
    listed = (mailout_recipients.c.mailout_key.in_(runs), mailout_recipients.c.email == address)
    await tx.execute(delete(mailout_recipients).where(*listed))
    named = or_(mailout_errors.c.email == address, _contains(mailout_errors.c.message, address))
    emptied = {"email": None, "message": ERASED_SUBJECT}
    await tx.execute(update(mailout_errors).where(mailout_errors.c.mailout_key.in_(runs), named).values(**emptied))


async def _erase_forwarded_replies(tx: Transaction, tenant_id: int, keys: list[int], address: str) -> None:
    """Erase the replies by or to the contact that were forwarded. Raise `MessageInProgress` if one is not sent yet."""
    m, d = messages.c, deliveries.c
    columns = (m.id, m.outbox_id, m.payload, m.content_digest, d.status)
    for start in range(0, len(keys), _BATCH_SIZE):
        some = m.id.in_(keys[start : start + _BATCH_SIZE])
        rows = await tx.execute(select(*columns).join_from(messages, deliveries, d.message_key == m.id).where(some))
        replies = [row for row in rows if address in orjson.loads(row.payload).get(FORWARDED_REPLY, {}).values()]
        for row in replies:
            if row.status in (*_IN_PROGRESS, *CLAIMABLE):
                raise MessageInProgress(row.outbox_id, row.status)
        c, digests = raw_contents.c, [row.content_digest for row in replies]
        await tx.execute(delete(raw_contents).where(c.tenant_id == tenant_id, c.digest.in_(digests)))
        erased = {"subject": ERASED_SUBJECT, "payload": "{}", "content_digest": None}
        await tx.execute(update(messages).where(m.id.in_([row.id for row in replies])).values(**erased))


async def _erase_team_notifications(tx: Transaction, tenant_id: int, keys: list[int], now: Instant) -> None:
    """Erase the emails in which steps of sequences notified the team about the contact. Unsent ones are cancelled."""
    m, d = messages.c, deliveries.c
    for start in range(0, len(keys), _BATCH_SIZE):
        # Emails to other people in sequences have a recipient ID.
        some = (m.id.in_(keys[start : start + _BATCH_SIZE]), m.source == Source.SEQUENCE, m.recipient_id.is_(None))
        query = select(m.id, m.outbox_id, d.status).join_from(messages, deliveries, d.message_key == m.id)
        rows = await tx.execute(query.where(*some))
        await _cancel_unsent(tx, tenant_id, rows, now)
        erased = {"subject": ERASED_SUBJECT, "payload": "{}"}
        await tx.execute(update(messages).where(m.id.in_([row.id for row in rows])).values(**erased))


async def _find_step_requests(tx: Transaction, tenant_id: int, address: str, after: int) -> list[int]:
    """Return the keys of the webhook requests of sequence steps.

    They contain the event that started the contact's run.
    """
    contact, w = await _contact(tx, tenant_id, address), webhook_deliveries.c
    theirs = w.metadata.startswith(f'{{"{CONTACT_KEY}":{contact.id},', autoescape=True)
    matching = (w.id > after, w.tenant_id == tenant_id, w.metadata.is_not(None), theirs)
    return [row.id for row in await tx.execute(select(w.id).where(*matching))]


async def _erase_step_requests(tx: Transaction, keys: list[int]) -> None:
    for start in range(0, len(keys), _BATCH_SIZE):
        some = webhook_deliveries.c.id.in_(keys[start : start + _BATCH_SIZE])
        await tx.execute(update(webhook_deliveries).where(some).values(metadata="{}"))


async def _copied_to(tx: Transaction, tenant_id: int, address: str, after: int) -> list[int]:
    """Return the keys of messages to others that have this address in Cc, forward its reply, or are about it."""
    matching = (
        messages.c.id > after,
        messages.c.tenant_id == tenant_id,
        messages.c.to_email != address,
        _contains(messages.c.payload, address),
    )
    return [row.id for row in await tx.execute(select(messages.c.id).where(*matching))]


async def _remove_from_copies(tx: Transaction, keys: list[int], address: str) -> None:
    for start in range(0, len(keys), _BATCH_SIZE):
        some = messages.c.id.in_(keys[start : start + _BATCH_SIZE])
        for row in await tx.execute(select(messages.c.id, messages.c.payload).where(some)):
            payload = orjson.loads(row.payload)
            others = {
                kind: [copy for copy in payload[kind] if copy.strip().lower() != address]
                for kind in ("cc", "bcc")
                if payload.get(kind)
            }
            if any(others[kind] != payload[kind] for kind in others):
                text = orjson.dumps({**payload, **others}).decode()
                await tx.execute(update(messages).where(messages.c.id == row.id).values(payload=text))


async def _move_cursors(tx: Transaction, tenant_id: int, address: str) -> None:
    """Move the cursor of each campaign that stopped at this address to the address before it."""
    before = select(func.max(contacts.c.email)).where(contacts.c.tenant_id == tenant_id, contacts.c.email < address)
    matching = (queue_entries.c.tenant_id == tenant_id, queue_entries.c.enqueued_to == address)
    await tx.execute(
        update(queue_entries).where(*matching).values(enqueued_to=func.coalesce(before.scalar_subquery(), ""))
    )


def _contains(column: ColumnElement[str], address: str) -> ColumnElement[bool]:
    return func.lower(column).contains(address, autoescape=True)


async def _erase_contact(tx: Transaction, tenant_id: int, contact: Contact, placeholder: str, now: Instant) -> None:
    await end_of_contact(tx, contact.id, "erased", now)
    await tx.execute(delete(contact_tags).where(contact_tags.c.contact_key == contact.id))
    await tx.execute(delete(subscriptions).where(subscriptions.c.contact_key == contact.id))
    await tx.execute(delete(form_submissions).where(form_submissions.c.contact_key == contact.id))
    await tx.execute(delete(deleted_subscriptions).where(deleted_subscriptions.c.contact_key == contact.id))
    about_them = ("name", "locale", "timezone", "bounce_type", "bounce_subtype")
    basis = ("legal_basis", "legal_basis_source", "legal_basis_by", "legal_basis_at")
    consent = ("tracking_consent_wording", "tracking_consent_source", "tracking_consent_at", "consents_to_tracking")
    nothing = dict.fromkeys((*about_them, *basis, *consent, "snoozed_until"))
    await tx.execute(delete(bulk_sends).where(bulk_sends.c.tenant_id == tenant_id, bulk_sends.c.email == contact.email))
    deleted = (deleted_messages.c.tenant_id == tenant_id, deleted_messages.c.to_email == contact.email)
    await tx.execute(delete(deleted_messages).where(*deleted))
    await tx.execute(
        update(contacts)
        .where(contacts.c.id == contact.id)
        .values(**nothing, email=placeholder, attributes="{}", deleted_at=now, status_source=ERASURE)
    )
    await tx.execute(delete(subscriber_reports).where(subscriber_reports.c.email == contact.email))
    reported = (reports.c.tenant_id == tenant_id, reports.c.email == contact.email)
    await tx.execute(update(reports).where(*reported).values(email=None))
    audited = (audit_log.c.tenant_id == tenant_id, audit_log.c.subject == contact.email)
    await tx.execute(update(audit_log).where(*audited).values(subject=placeholder, detail="{}"))


async def _suppress(tx: Transaction, tenant_id: int, email: str, now: Instant) -> None:
    """Replace all suppressions by one for bulk email, because the lists that a contact left are personal data."""
    matching = (suppressions.c.tenant_id == tenant_id, suppressions.c.email == email)
    await tx.execute(delete(suppressions).where(*matching, suppressions.c.list_key != "*"))
    entry = {"list_key": GENERAL, "reason": status.SuppressionReason.UNSUBSCRIBED.value, "source": ERASURE}
    await tx.run(SUPPRESS_ERASED, tenant_id=tenant_id, email=email, now=now, **entry)
