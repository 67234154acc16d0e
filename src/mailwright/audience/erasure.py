"""Erase a contact: remove personal data from contacts and from sent messages, and keep the totals correct.

An erasure takes effect at once: nothing more is sent to the contact. The data is deleted in the same call, unless a
message to the contact has no result yet, because its result must still find the message. Then a worker deletes the data
as soon as the message has a result.

Messages keep their rows, states and times, so that the audit still adds up. The address itself remains only as a
suppression, because otherwise the contact could receive email again after the next import or sign-up.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Table, and_, delete, func, insert, or_, select, update

from mailwright.audience import status
from mailwright.audience.contact_events import erase_events, has_events
from mailwright.audience.contact_fields import normalize_email
from mailwright.audience.contacts import Contact, contact_columns, contact_from_row
from mailwright.audience.enrolments import end_of_contact
from mailwright.audience.erasure_record import ErasureRecord, digest_of
from mailwright.audience.erasure_state import Erasure, ErasureState, find_pending
from mailwright.audience.external_ids import delete_external_ids
from mailwright.audience.importing.report import move_reports, redact_address, redact_stored_address, report_name
from mailwright.audience.importing.store import ERASURE
from mailwright.audience.importing.upload_files import PREFIX
from mailwright.audience.subscription_events import CONTACT_KEY
from mailwright.audience.suppressions import ALL_MESSAGES
from mailwright.audience.suppressions import add_all as suppress_all
from mailwright.domain.clock import Clock, Instant, isoformat
from mailwright.domain.errors import NotDurable, NotFound
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.message import Event
from mailwright.domain.states import FINAL, EventType, Status
from mailwright.domain.unsubscribe_tokens import GENERAL
from mailwright.ops.logs import logger
from mailwright.outbox import audit_log as audit
from mailwright.outbox.erased_messages import (
    BATCH_SIZE,
    ERASED_SUBJECT,
    MessageInProgress,
    close_overdue,
    contains,
    erase_forwarded_replies,
    erase_messages,
    erase_raw_contents,
    erase_records,
    erase_team_notifications,
    find_copies,
    find_last_result,
    find_settled,
    remove_from_copies,
    stop_messages,
)
from mailwright.outbox.in_doubt import RESOLUTION_PERIOD
from mailwright.outbox.settle import NO_MESSAGE, append_events, event_row
from mailwright.storage.database import Database, Transaction
from mailwright.storage.statements import statement
from mailwright.storage.stored_files import list_files
from mailwright.storage.tables import (
    audit_log,
    campaign_runs,
    contact_tags,
    contacts,
    deleted_subscriptions,
    deliveries,
    erasures,
    form_submissions,
    imports,
    mailout_errors,
    mailout_recipients,
    mailouts,
    messages,
    profile_recipients,
    queue_entries,
    reports,
    subscriber_reports,
    subscriptions,
    suppressions,
    webhook_deliveries,
)

SUPPRESS_ERASED = statement(__package__, "suppress_erased")

# Rows before the newest one whose transactions may not have been committed when a search began.
_UNCOMMITTED: Final = 20_000
_BATCH_OF_ERASURES: Final = 10

log = logger(__name__)


async def erase(
    database: Database,
    clock: Clock,
    tenant_id: int,
    email: str,
    *,
    actor: str,
    imports_folder: Path | None = None,
    record: ErasureRecord | None = None,
) -> Erasure:
    """Erase a contact. From now on nothing is sent to them, and pending messages are cancelled.

    While a message is being sent or in doubt, the data stays and the erasure is pending; `PendingErasures` finishes it.
    `imports_folder` contains this machine's import reports. `record` keeps the erasure from being undone by a restore.
    """
    address, now = normalize_email(email), clock.now()
    async with database.read() as tx:
        is_contact = await _is_contact(tx, tenant_id, address)
    if not is_contact:
        await _erase_without_contact(database, tenant_id, address, actor, now)
    else:
        async with database.write() as tx:
            await _begin(tx, tenant_id, address, actor, now)
    if record is not None:
        await asyncio.to_thread(record.add, [(now, digest_of(tenant_id, address))])
    if not is_contact:
        return Erasure(address, ErasureState.ERASED, now, now)
    return await _finish(database, clock, tenant_id, address, imports_folder=imports_folder)


class PendingErasures:
    """Finishes erasures as soon as the last message to the contact has a result, or is in doubt for too long."""

    def __init__(self, database: Database, clock: Clock, imports_folder: Path | None = None) -> None:
        self._database = database
        self._clock = clock
        self._imports_folder = imports_folder

    async def tick(self) -> bool:
        """Finish a batch. Return True if there may be more."""
        rows = await self._find_due()
        finished = 0
        for row in rows:
            try:
                finished += (await self._finish(row)).is_finished
            except NotDurable:
                raise
            except Exception as error:  # The erasures of other contacts must not wait for this one.
                log.error("erasure_failed", tenant=row.tenant_id, requestedAt=row.requested_at, exc_info=error)
        return finished == _BATCH_OF_ERASURES

    async def _find_due(self) -> Sequence[Any]:
        """Return the erasures that no message delays any longer."""
        e, m, d = erasures.c, messages.c, deliveries.c
        joined = erasures.outerjoin(messages, m.outbox_id == e.waits_for).outerjoin(deliveries, d.message_key == m.id)
        is_overdue = and_(
            d.status == Status.IN_DOUBT,
            d.in_doubt_since <= self._clock.now() - RESOLUTION_PERIOD,
            m.to_email == e.email,
        )
        is_due = or_(d.status.is_(None), d.status.in_(FINAL), is_overdue)
        columns = (e.tenant_id, e.email, e.requested_at, e.waits_for, is_overdue.label("is_overdue"))
        query = select(*columns).select_from(joined).where(is_due).order_by(e.id).limit(_BATCH_OF_ERASURES)
        async with self._database.read() as tx:
            return await tx.execute(query)

    async def _finish(self, row: Any) -> Erasure:
        if row.is_overdue:
            async with self._database.write() as tx:
                await close_overdue(tx, row.tenant_id, row.waits_for, self._clock.now())
        folder = self._imports_folder
        return await _finish(self._database, self._clock, row.tenant_id, row.email, imports_folder=folder)


async def _begin(tx: Transaction, tenant_id: int, address: str, actor: str, now: Instant) -> None:
    """Store the request, and end everything that would send to the contact or change their data."""
    await _lock_imports(tx, tenant_id)
    contact = await _contact(tx, tenant_id, address, for_update=True)
    if await find_pending(tx, tenant_id, address) is None:
        values = {"tenant_id": tenant_id, "email": address, "requested_by": actor, "requested_at": now}
        await tx.execute(insert(erasures).values(**values))
    await stop_messages(tx, tenant_id, address, now)
    await end_of_contact(tx, contact.id, "erased", now)
    joined = (subscriptions.c.contact_key == contact.id, subscriptions.c.unsubscribed_at.is_(None))
    left = {"unsubscribed_at": now, "is_pending": False, "source": ERASURE}
    await tx.execute(update(subscriptions).where(*joined).values(**left))
    await _erase_from_mailouts(tx, tenant_id, address)
    await _suppress(tx, tenant_id, address, now)
    # The contact gets no email at all, so that a retry or a copy of an email to others is not sent to them either.
    await suppress_all(tx, tenant_id, [address], reason=ERASURE, source=ERASURE, now=now)
    if contact.deleted_at is None:
        await tx.execute(update(contacts).where(contacts.c.id == contact.id).values(deleted_at=now))


async def _finish(
    database: Database, clock: Clock, tenant_id: int, address: str, *, imports_folder: Path | None
) -> Erasure:
    """Delete the data, or record which message delays that."""
    now = clock.now()
    try:
        return await _delete(database, tenant_id, address, now, imports_folder=imports_folder)
    except MessageInProgress as error:
        async with database.write() as tx:
            return await _wait(tx, tenant_id, address, error.outbox_id, now)


async def _wait(tx: Transaction, tenant_id: int, address: str, outbox_id: str, now: Instant) -> Erasure:
    """Record the message that delays the erasure. The first time, also tell the requester in the audit log."""
    e = erasures.c
    matching = (e.tenant_id == tenant_id, e.email == address)
    rows = await tx.execute(select(e.requested_by, e.requested_at, e.waits_for).where(*matching).with_for_update())
    if not rows:  # Another process has finished it.
        return Erasure(address, ErasureState.ERASED, now, now)
    waits_for, expected_at = await find_last_result(tx, tenant_id, address, outbox_id, now)
    await tx.execute(update(erasures).where(*matching).values(waits_for=waits_for, expected_at=expected_at))
    if rows[0].waits_for is None:
        contact = await _contact(tx, tenant_id, address)
        detail = {"waitsFor": waits_for, "expectedAt": isoformat(expected_at)}
        await audit.record(
            tx,
            now,
            actor=rows[0].requested_by,
            action="contact.erasing",
            subject=contact.contact_id,
            tenant_id=tenant_id,
            detail=detail,
        )
        await _publish(tx, tenant_id, contact, EventType.CONTACT_ERASING, now, **detail)
    return Erasure(address, ErasureState.ERASING, rows[0].requested_at, waits_for=waits_for, expected_at=expected_at)


async def _delete(
    database: Database, tenant_id: int, address: str, now: Instant, *, imports_folder: Path | None
) -> Erasure:
    """Delete the data of a contact whose erasure has begun. Raise `MessageInProgress` if a message delays that."""
    # Searching all messages takes long, so it happens outside of the write transaction.
    async with database.read() as tx:
        pending = await find_pending(tx, tenant_id, address)
        if pending is None:  # Another process has finished it.
            return Erasure(address, ErasureState.ERASED, now, now)
        found = await _search(tx, tenant_id, address)
        import_rows = await tx.execute(select(imports.c.import_id).where(imports.c.tenant_id == tenant_id))
    # Redact the reports first. If the erasure fails afterwards, only the address is missing from the reports.
    report_names = [report_name(row.import_id) for row in import_rows]
    for name in {PREFIX + name for name in report_names}.intersection(await list_files(database, PREFIX)):
        await redact_stored_address(database, name, address)
    if imports_folder is not None:
        report_paths = [imports_folder / name for name in report_names] + move_reports(imports_folder, tenant_id)
        await asyncio.to_thread(_redact_reports, report_paths, address)
    async with database.write() as tx:
        await _lock_imports(tx, tenant_id)
        e = erasures.c
        ended = delete(erasures).where(e.tenant_id == tenant_id, e.email == address).returning(e.requested_by)
        requests = await tx.execute(ended)
        if not requests:
            return replace(pending, state=ErasureState.ERASED, erased_at=now)
        contact = await _contact(tx, tenant_id, address, for_update=True)
        # Find the rows that were stored since the search. Steps of sequences lock the contact, so they store no more
        # rows now.
        found = await _search(tx, tenant_id, address, found)
        keys = await find_settled(tx, tenant_id, address, now)
        await erase_raw_contents(tx, tenant_id, address)
        placeholder = f"erased+{contact.contact_id}@invalid"
        for start in range(0, len(keys), BATCH_SIZE):
            await erase_messages(tx, keys[start : start + BATCH_SIZE], placeholder, address)
        await erase_forwarded_replies(tx, tenant_id, found.copies, address)
        await erase_team_notifications(tx, tenant_id, found.copies, now)
        await _erase_step_requests(tx, found.step_requests)
        await remove_from_copies(tx, found.copies, address)
        await _erase_from_mailouts(tx, tenant_id, address)
        await _erase_from_article_runs(tx, tenant_id, address)
        await _move_cursors(tx, tenant_id, address)
        await _erase_contact(tx, tenant_id, contact, placeholder, now)
        await _suppress(tx, tenant_id, address, now)
        await delete_external_ids(tx, tenant_id, address)
        await erase_events(tx, tenant_id, address)
        await audit.record(
            tx,
            now,
            actor=requests[0].requested_by,
            action="contact.erase",
            subject=contact.contact_id,
            tenant_id=tenant_id,
            detail={"messages": len(keys)},
        )
        await _publish(tx, tenant_id, contact, EventType.CONTACT_ERASED, now)
    return Erasure(address, ErasureState.ERASED, pending.requested_at, now, messages=len(keys))


async def _publish(
    tx: Transaction, tenant_id: int, contact: Contact, event_type: EventType, now: Instant, **detail: str | None
) -> None:
    """Append an event for webhooks. It names the contact by its ID, which stays after the erasure."""
    event = Event(event_type, now, {"contactId": contact.contact_id, **detail})
    await append_events(tx, [event_row(NO_MESSAGE, tenant_id, event)])


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
        copies = await find_copies(tx, tenant_id, address, 0)
        return _Found(copies, await _find_step_requests(tx, tenant_id, address, 0), newest_message, newest_request)
    copies = await find_copies(tx, tenant_id, address, earlier.newest_message - _UNCOMMITTED)
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
        if not (await has_events(tx, tenant_id, address) or await _is_recorded(tx, tenant_id, address)):
            raise
        return False
    return True


async def _is_recorded(tx: Transaction, tenant_id: int, address: str) -> bool:
    """Return whether the address is on the suppression list, other than by its erasure, or in the audit log."""
    s, a = suppressions.c, audit_log.c
    listed = select(s.id).where(s.tenant_id == tenant_id, s.email == address, s.source != ERASURE)
    audited = select(a.id).where(a.tenant_id == tenant_id, a.subject == address)
    return bool(await tx.execute(listed.limit(1)) or await tx.execute(audited.limit(1)))


async def _erase_without_contact(database: Database, tenant_id: int, address: str, actor: str, now: Instant) -> None:
    """Erase the events and records of an address that never became a contact."""
    async with database.write() as tx:
        await _suppress(tx, tenant_id, address, now)
        await delete_external_ids(tx, tenant_id, address)
        await erase_events(tx, tenant_id, address)
        await erase_records(tx, tenant_id, address, ERASED_SUBJECT)
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


async def _erase_from_article_runs(tx: Transaction, tenant_id: int, address: str) -> None:
    """Remove the address from the recipients that were read from another program's table and have no message yet."""
    runs = select(campaign_runs.c.id).where(campaign_runs.c.tenant_id == tenant_id)
    listed = (profile_recipients.c.run_key.in_(runs), profile_recipients.c.email == address)
    await tx.execute(delete(profile_recipients).where(*listed))


async def _erase_from_mailouts(tx: Transaction, tenant_id: int, address: str) -> None:
    """Remove the address from mailouts in preparation and from their errors."""
    runs = select(mailouts.c.id).where(mailouts.c.tenant_id == tenant_id)
    listed = (mailout_recipients.c.mailout_key.in_(runs), mailout_recipients.c.email == address)
    await tx.execute(delete(mailout_recipients).where(*listed))
    named = or_(mailout_errors.c.email == address, contains(mailout_errors.c.message, address))
    emptied = {"email": None, "message": ERASED_SUBJECT}
    await tx.execute(update(mailout_errors).where(mailout_errors.c.mailout_key.in_(runs), named).values(**emptied))


async def _find_step_requests(tx: Transaction, tenant_id: int, address: str, after: int) -> list[int]:
    """Return the keys of the webhook requests of sequence steps.

    They contain the event that started the contact's run.
    """
    contact, w = await _contact(tx, tenant_id, address), webhook_deliveries.c
    theirs = w.metadata.startswith(f'{{"{CONTACT_KEY}":{contact.id},', autoescape=True)
    matching = (w.id > after, w.tenant_id == tenant_id, w.metadata.is_not(None), theirs)
    return [row.id for row in await tx.execute(select(w.id).where(*matching))]


async def _erase_step_requests(tx: Transaction, keys: list[int]) -> None:
    for start in range(0, len(keys), BATCH_SIZE):
        some = webhook_deliveries.c.id.in_(keys[start : start + BATCH_SIZE])
        await tx.execute(update(webhook_deliveries).where(some).values(metadata="{}"))


async def _move_cursors(tx: Transaction, tenant_id: int, address: str) -> None:
    """Move the cursor of each campaign that stopped at this address to the address before it."""
    before = select(func.max(contacts.c.email)).where(contacts.c.tenant_id == tenant_id, contacts.c.email < address)
    matching = (queue_entries.c.tenant_id == tenant_id, queue_entries.c.enqueued_to == address)
    await tx.execute(
        update(queue_entries).where(*matching).values(enqueued_to=func.coalesce(before.scalar_subquery(), ""))
    )


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
    await erase_records(tx, tenant_id, contact.email, placeholder)
    await tx.execute(
        update(contacts)
        .where(contacts.c.id == contact.id)
        .values(**nothing, email=placeholder, attributes="{}", deleted_at=now, status_source=ERASURE)
    )
    await tx.execute(delete(subscriber_reports).where(subscriber_reports.c.email == contact.email))
    reported = (reports.c.tenant_id == tenant_id, reports.c.email == contact.email)
    await tx.execute(update(reports).where(*reported).values(email=None))


async def _suppress(tx: Transaction, tenant_id: int, email: str, now: Instant) -> None:
    """Replace all suppressions by one for bulk email, because the lists that a contact left are personal data.

    A suppression for all email stays, except that of a pending erasure.
    """
    s = suppressions.c
    replaced = or_(s.list_key != ALL_MESSAGES, s.source == ERASURE)
    await tx.execute(delete(suppressions).where(s.tenant_id == tenant_id, s.email == email, replaced))
    entry = {"list_key": GENERAL, "reason": status.SuppressionReason.UNSUBSCRIBED.value, "source": ERASURE}
    await tx.run(SUPPRESS_ERASED, tenant_id=tenant_id, email=email, now=now, **entry)
