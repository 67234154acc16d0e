"""Erase a contact: remove personal data from contacts and from sent messages, and keep the totals correct.

Messages keep their rows, states and times, so that the audit still adds up. The address itself remains only as a
suppression, because otherwise the contact could receive email again after the next import or sign-up.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sqlalchemy import Table, delete, func, or_, select, update

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
from mailwright.domain.errors import NotFound
from mailwright.domain.unsubscribe_tokens import GENERAL
from mailwright.outbox import audit_log as audit
from mailwright.outbox.erased_messages import (
    BATCH_SIZE,
    ERASED_SUBJECT,
    contains,
    erase_forwarded_replies,
    erase_messages,
    erase_raw_contents,
    erase_records,
    erase_team_notifications,
    find_copies,
    remove_from_copies,
    stop_messages,
)
from mailwright.storage.database import Database, Transaction
from mailwright.storage.statements import statement
from mailwright.storage.tables import (
    campaign_runs,
    contact_tags,
    contacts,
    deleted_subscriptions,
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
        keys = await stop_messages(tx, tenant_id, address, now)
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
    """Replace all suppressions by one for bulk email, because the lists that a contact left are personal data."""
    matching = (suppressions.c.tenant_id == tenant_id, suppressions.c.email == email)
    await tx.execute(delete(suppressions).where(*matching, suppressions.c.list_key != "*"))
    entry = {"list_key": GENERAL, "reason": status.SuppressionReason.UNSUBSCRIBED.value, "source": ERASURE}
    await tx.run(SUPPRESS_ERASED, tenant_id=tenant_id, email=email, now=now, **entry)
