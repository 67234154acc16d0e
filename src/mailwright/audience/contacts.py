"""Contacts of a tenant, found by address or by ID."""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from sqlalchemy import ColumnElement, Row, insert, select, update
from sqlalchemy import delete as delete_rows

from mailwright.audience import contact_fields, suppressions
from mailwright.audience.enrolments import end_of_contact
from mailwright.audience.erasure_state import Erasure, find_pending
from mailwright.audience.legal_basis import LegalBasisRecord
from mailwright.audience.suppressions import Suppression
from mailwright.audience.tracking_consent import TrackingConsent, audit_consent, consent_of_row
from mailwright.domain import address
from mailwright.domain.clock import Clock, Instant
from mailwright.domain.errors import NotFound
from mailwright.domain.ids import uuid7
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.outbox import audit_log
from mailwright.outbox.accept import insert_contacts
from mailwright.outbox.message_records import MessageSearch, MessageSummary, search
from mailwright.outbox.pending_erasures import refuse_erasing
from mailwright.storage.database import Database, Readable, Transaction
from mailwright.storage.tables import contact_tags, contacts, subscriptions

NEWEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Contact:
    id: int
    contact_id: str
    email: str
    name: str | None
    status: str
    created_at: Instant
    deleted_at: Instant | None
    status_updated_at: Instant | None
    status_source: str | None
    bounce_type: str | None
    bounce_subtype: str | None
    locale: str | None
    timezone: str | None
    attributes: dict[str, Any]
    legal_basis: str | None
    legal_basis_source: str | None
    legal_basis_by: str | None
    legal_basis_at: Instant | None
    consents_to_tracking: bool | None
    tracking_consent_wording: str | None
    tracking_consent_source: str | None
    tracking_consent_at: Instant | None
    snoozed_until: Instant | None

    @property
    def is_deleted(self) -> bool:
        return self.deleted_at is not None

    @property
    def tracking_consent(self) -> TrackingConsent | None:
        """The contact's decision about the recording of opens and clicks; None if they were never asked."""
        return consent_of_row(self)


@dataclass(frozen=True, slots=True)
class Membership:
    list_key: str
    subscribed_at: Instant | None
    unsubscribed_at: Instant | None
    is_pending: bool = False  # waits for the contact's confirmation
    confirmed_at: Instant | None = None


@dataclass(frozen=True, slots=True)
class ContactDetails:
    """Everything about one contact: status, lists, suppressions, tags and the latest messages."""

    contact: Contact
    lists: tuple[Membership, ...]
    suppressions: tuple[Suppression, ...]
    messages: tuple[MessageSummary, ...]
    tags: tuple[str, ...] = ()
    erasure: Erasure | None = None  # the unfinished erasure of the contact


async def find_by_email(database: Database, tenant_id: int, email: str) -> Contact:
    """Find a contact by any spelling of the address. An invalid address is not found."""
    async with database.read() as tx:
        return await _find(tx, tenant_id, contacts.c.email == _normalize(email))


async def find_by_id(database: Database, tenant_id: int, contact_id: str) -> Contact:
    async with database.read() as tx:
        return await _find(tx, tenant_id, contacts.c.contact_id == contact_id)


async def load_details(database: Database, tenant_id: int, email: str, *, messages: int = 10) -> ContactDetails:
    """Load a contact with at most this many of its latest messages."""
    async with database.read() as tx:
        contact = await _find(tx, tenant_id, contacts.c.email == _normalize(email))
        rows: Any = await tx.execute(
            select(*(subscriptions.c[name] for name in Membership.__slots__))
            .where(subscriptions.c.contact_key == contact.id)
            .order_by(subscriptions.c.list_key)
        )
        entries = await suppressions.list_for_address(tx, tenant_id, contact.email)
        erasure = await find_pending(tx, tenant_id, contact.email)
        matching = contact_tags.c.contact_key == contact.id
        tags = await tx.execute(select(contact_tags.c.tag).where(matching).order_by(contact_tags.c.tag))
    latest = await search(database, tenant_id, MessageSearch(to_email=contact.email), limit=messages)
    memberships = tuple(Membership(**row._mapping) for row in rows)
    return ContactDetails(contact, memberships, tuple(entries), tuple(latest), tuple(row.tag for row in tags), erasure)


async def list_page(
    database: Readable, tenant_id: int, *, limit: int, status: str | None = None, before: int = NEWEST
) -> list[Contact]:
    """Return a page of contacts, newest first. For the next page, pass the last ID of this one as `before`."""
    conditions = [contacts.c.tenant_id == tenant_id, contacts.c.id < before, contacts.c.deleted_at.is_(None)]
    if status is not None:
        conditions.append(contacts.c.status == status)
    async with database.read() as tx:
        rows = await tx.execute(
            select(*contact_columns()).where(*conditions).order_by(contacts.c.id.desc()).limit(limit)
        )
    return [contact_from_row(row) for row in rows]


@dataclass(frozen=True, slots=True)
class ContactChange:
    """New values for a contact. None keeps a field. Attributes that are not named keep their values."""

    name: str | None = None
    locale: str | None = None
    timezone: str | None = None
    attributes: Mapping[str, Any] | None = None  # a value of None removes the attribute
    tags: Sequence[str] | None = None  # the complete set; tags that are not in it are removed
    legal_basis: LegalBasisRecord | None = None
    tracking_consent: TrackingConsent | None = None


async def put(
    database: Database, clock: Clock, tenant_id: int, email: str, change: ContactChange, *, actor: str | None = None
) -> None:
    """Create or change a contact. This does not decide whether the contact receives email.

    An `actor` is recorded in the audit log.
    """
    address_, now = contact_fields.normalize_deliverable_email(email), clock.now()
    given = contact_fields.check_attributes(change.attributes or {})
    values: dict[str, Any] = {
        name: value
        for name, value in (
            ("name", None if change.name is None else contact_fields.normalize_name(change.name)),
            ("locale", None if change.locale is None else contact_fields.normalize_locale(change.locale)),
            ("timezone", None if change.timezone is None else contact_fields.normalize_timezone(change.timezone)),
        )
        if getattr(change, name) is not None
    }
    basis = change.legal_basis
    if basis is not None:
        values |= basis.columns(now)
    if change.tracking_consent is not None:
        values |= change.tracking_consent.columns(now)
    tags = None if change.tags is None else contact_fields.normalize_tags(change.tags)
    async with database.write() as tx:
        row = await _lock_or_create(tx, tenant_id, address_, now)
        await refuse_erasing(tx, tenant_id, [address_])
        merged = contact_fields.merge_attributes(orjson.loads(row.attributes), given)
        values["attributes"] = orjson.dumps(contact_fields.check_attributes(merged)).decode()
        await tx.execute(update(contacts).where(contacts.c.id == row.id).values(**values))
        if tags is not None:
            await tx.execute(delete_rows(contact_tags).where(contact_tags.c.contact_key == row.id))
            for tag in tags:
                await tx.execute(insert(contact_tags).values(contact_key=row.id, tag=tag, tenant_id=tenant_id))
        if actor is not None:
            await audit_log.record(tx, now, actor=actor, action="contact.put", subject=address_, tenant_id=tenant_id)
        if basis is not None:
            await audit_log.record(
                tx,
                now,
                actor=basis.by,
                action="contact.legal_basis",
                subject=address_,
                tenant_id=tenant_id,
                detail={"basis": basis.basis, "source": basis.source},
            )
        if change.tracking_consent is not None:
            await audit_consent(tx, tenant_id, address_, change.tracking_consent, now, actor=actor)


async def delete(database: Database, clock: Clock, tenant_id: int, contact_id: str) -> Contact:
    """Mark a contact as deleted. The row stays, so that messages requested for this ID are refused."""
    matching = (contacts.c.tenant_id == tenant_id, contacts.c.contact_id == contact_id, contacts.c.deleted_at.is_(None))
    now = clock.now()
    async with database.write() as tx:
        for row in await tx.execute(select(contacts.c.id).where(*matching).with_for_update()):
            await tx.execute(update(contacts).where(contacts.c.id == row.id).values(deleted_at=now))
            await end_of_contact(tx, row.id, "removed", now)
    return await find_by_id(database, tenant_id, contact_id)


async def _lock_or_create(tx: Transaction, tenant_id: int, email: str, now: Instant) -> Row[Any]:
    """Lock a contact, and create it if needed. Try again if it is erased between the insert and the lock."""
    matching = (contacts.c.tenant_id == tenant_id, contacts.c.email == email)
    rows: Sequence[Row[Any]] = ()
    while not rows:
        row = {"tenant_id": tenant_id, "email": email, "contact_id": uuid7(now), "name": None}
        await insert_contacts(tx, [row], now)
        rows = await tx.execute(select(contacts.c.id, contacts.c.attributes).where(*matching).with_for_update())
    return rows[0]


async def _find(tx: Transaction, tenant_id: int, condition: ColumnElement[bool]) -> Contact:
    rows = await tx.execute(select(*contact_columns()).where(contacts.c.tenant_id == tenant_id, condition))
    if not rows:
        raise NotFound("There is no such contact.")
    return contact_from_row(rows[0])


def contact_columns() -> list[ColumnElement[Any]]:
    return [contacts.c[name] for name in Contact.__slots__]


def contact_from_row(row: Row[Any]) -> Contact:
    return Contact(**{**row._mapping, "attributes": orjson.loads(row.attributes)})


def _normalize(email: str) -> str:
    try:
        return address.normal(email)
    except address.InvalidAddress as error:
        raise NotFound from error
