"""Store a batch of rows as contacts in one transaction. An import never reactivates or resubscribes a contact.

New contacts are added. Known contacts get the values of the file, and are subscribed only if they never were before.
Their status, suppressions and unsubscribes stay as they are.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import orjson

from mailwright.audience.contact_fields import merge_attributes
from mailwright.audience.enrolments import enrol_subscribers
from mailwright.audience.importing.rows import ContactRow
from mailwright.audience.importing.subscription_answers import SubscriptionAnswer
from mailwright.audience.legal_basis import LegalBasisRecord
from mailwright.audience.status import apply_facts, unsubscribe_fact
from mailwright.audience.tracking_consent import REFUSED
from mailwright.domain.clock import Instant
from mailwright.domain.ids import uuid7s
from mailwright.outbox.pending_erasures import find_erasing
from mailwright.storage.hot import Runner
from mailwright.storage.statements import statement

_PACKAGE = "mailwright.audience"

ADD_IMPORTED = statement(_PACKAGE, "add_imported")
CHANGE_IMPORTED = statement(_PACKAGE, "change_imported")
ERASED_IMPORTED = statement(_PACKAGE, "erased_imported")
SUBSCRIBE_IMPORTED = statement(_PACKAGE, "subscribe_imported")
SUPPRESSED_IMPORTED = statement(_PACKAGE, "suppressed_imported")
KNOWN_CONTACTS = statement(_PACKAGE, "known_contacts")
RECORD_LEGAL_BASIS = statement(_PACKAGE, "record_legal_basis")
RECORD_CONSENTS = statement(_PACKAGE, "record_consents")
TAG_IMPORTED = statement(_PACKAGE, "tag_imported")
TAGS_OF_CONTACTS = statement(_PACKAGE, "tags_of_contacts")

# The source of a suppression that an erasure left behind.
ERASURE = "erasure"
# The subscription states, as `known_contacts.sql` returns them, that an import does not change.
SUBSCRIBED, UNSUBSCRIBED = "on", "left"
PENDING = "pending"


class RowOutcome(StrEnum):
    ADDED = "added"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    REFUSED = "refused"
    REPEATED = "repeated"  # the contact is counted with the first row of its address


@dataclass(frozen=True, slots=True)
class ImportTarget:
    """The tenant and list that the rows are imported into, and the source to record."""

    tenant_id: int
    list_key: str | None
    source: str  # names the import in the source of subscriptions
    now: Instant
    legal_basis: LegalBasisRecord | None = None
    starts_sequences: bool = False  # whether new subscribers enter the sequences that the list starts
    keeps_subscriptions: bool = False  # of subscribers for whom the file says no
    file_name: str = ""

    def source_of(self, contact: ContactRow) -> str:
        """Return the record of a subscription: the import and, if the file asks, its file, line, column and answer."""
        return f"{self.source} ({self.file_name}, {contact.proof})" if contact.proof else self.source


ERASED: Final = "erased on request; only the contact can subscribe again"
ERASING: Final = "is being erased on request, which is not finished"
DELETED: Final = "the contact was deleted and stays deleted"
ENDED: Final = "unsubscribed from the list"
KEPT: Final = "stays subscribed, as chosen for this import"
REPEATED: Final = "the same address as on an earlier line"
RowResult = tuple[RowOutcome, str]
_ADDED: Final[RowResult] = (RowOutcome.ADDED, "")
# The stored values: address, name, locale, time zone, attributes as JSON.
ContactValues = tuple[str, str | None, str | None, str | None, str]


def contact_values(contacts: Iterable[ContactRow]) -> list[ContactValues]:
    return [
        (
            contact.email,
            contact.name,
            contact.locale,
            contact.timezone,
            orjson.dumps(contact.attributes).decode() if contact.attributes else "{}",
        )
        for contact in contacts
    ]


async def store_batch(
    tx: Runner, contacts: Mapping[str, ContactRow], stored: Sequence[ContactValues], target: ImportTarget
) -> dict[str, RowResult]:
    """Store a batch and return the results by address. An address without a result was added."""
    if not contacts:
        return {}
    ids = uuid7s(target.now, len(stored))
    rows = [(contact_id, *values) for contact_id, values in zip(ids, stored, strict=True)]
    added = await tx.count(ADD_IMPORTED, contacts=rows, tenant_id=target.tenant_id, erasure=ERASURE, now=target.now)
    results: dict[str, RowResult] = {}
    settled: set[str] = set()
    if added < len(contacts):
        results, settled = await _update_known(tx, contacts, rows, added, target)
    await _remark_suppressed(tx, contacts, results, target)
    tagged = [
        (email, tag)
        for email, contact in contacts.items()
        if contact.tags and (email not in results or results[email][0] is not RowOutcome.REFUSED)
        for tag in contact.tags
    ]
    if tagged:
        await tx.count(TAG_IMPORTED, tags=tagged, tenant_id=target.tenant_id)
    to_subscribe = [
        (email, target.source_of(contact))
        for email, contact in contacts.items()
        if email not in settled and _wants_subscription(contact)
    ]
    if to_subscribe and target.list_key is not None:
        await tx.count(
            SUBSCRIBE_IMPORTED,
            contacts=to_subscribe,
            tenant_id=target.tenant_id,
            list_key=target.list_key,
            now=target.now,
        )
        if target.starts_sequences:
            joined = [email for email, _ in to_subscribe]
            await enrol_subscribers(tx, target.tenant_id, joined, target.list_key, now=target.now)
    await _record_legal_basis(tx, contacts, results, target)
    await _record_consents(tx, contacts, results, target)
    return results


async def _record_consents(
    tx: Runner, contacts: Mapping[str, ContactRow], results: dict[str, RowResult], target: ImportTarget
) -> None:
    """Record every refusal of tracking, and the consents of contacts who have not made a decision themselves."""
    rows = [
        (email, contact.tracking_consent, int(contact.tracking_consent != REFUSED))
        for email, contact in contacts.items()
        if contact.tracking_consent and results.get(email, _ADDED)[0] is not RowOutcome.REFUSED
    ]
    if not rows:
        return
    place = {"tenant_id": target.tenant_id, "source": target.source, "now": target.now}
    for row in await tx.run(RECORD_CONSENTS, contacts=rows, **place):
        outcome, why = results.get(row.email, _ADDED)
        if outcome is RowOutcome.UNCHANGED:
            results[row.email] = (RowOutcome.CHANGED, why)


async def _record_legal_basis(
    tx: Runner, contacts: Mapping[str, ContactRow], results: Mapping[str, RowResult], target: ImportTarget
) -> None:
    record = target.legal_basis
    if record is None or record.basis is None:
        return
    stored = [
        (email,)
        for email, contact in contacts.items()
        if results.get(email, _ADDED)[0] is not RowOutcome.REFUSED and _wants_subscription(contact)
    ]
    if stored:
        await tx.count(
            RECORD_LEGAL_BASIS,
            contacts=stored,
            tenant_id=target.tenant_id,
            basis=record.basis.value,
            source=f"{record.source} ({target.source})",
            by=record.by,
            now=target.now,
        )


async def _update_known(
    tx: Runner,
    contacts: Mapping[str, ContactRow],
    rows: Sequence[tuple[str | None, ...]],
    added: int,
    target: ImportTarget,
) -> tuple[dict[str, RowResult], set[str]]:
    """Update known contacts. Return their results, and the addresses whose subscription must not change."""
    addresses = [row[:2] for row in rows]
    known = await tx.run(KNOWN_CONTACTS, contacts=addresses, tenant_id=target.tenant_id, list_key=target.list_key)
    results: dict[str, RowResult] = {}
    if added + len(known) < len(contacts):
        erased = await tx.run(
            ERASED_IMPORTED, contacts=[row[1:] for row in addresses], tenant_id=target.tenant_id, erasure=ERASURE
        )
        results.update((row.email, (RowOutcome.REFUSED, ERASED)) for row in erased)
    settled = set(results)
    erasing = await find_erasing(tx, [(target.tenant_id, row.email) for row in known if row.deleted_at is not None])
    tags = await _known_tags(tx, [row for row in known if contacts[row.email].tags])
    changes = []
    refusals: list[tuple[str, str]] = []  # addresses of subscribers for whom the file says no, and the record of it
    for row in known:
        contact = contacts[row.email]
        if row.deleted_at is not None:
            is_erasing = (target.tenant_id, row.email) in erasing
            results[row.email] = (RowOutcome.REFUSED, ERASING if is_erasing else DELETED)
            settled.add(row.email)
            continue
        change = _change(row, contact)
        wants = _wants_subscription(contact)
        is_subscribed = target.list_key is not None and not row.listed and wants
        is_new = change is not None or is_subscribed or not tags.get(row.id, set()).issuperset(contact.tags)
        is_new = is_new or (target.legal_basis is not None and wants and row.legal_basis != target.legal_basis.basis)
        if change is not None:
            changes.append(change)
        if row.listed in (SUBSCRIBED, UNSUBSCRIBED):
            settled.add(row.email)
        remark = _remark(row.status, row.listed)
        if contact.answer is SubscriptionAnswer.NO and row.listed in (SUBSCRIBED, PENDING):
            if target.keeps_subscriptions and not str(row.listed_by).startswith(target.source):
                remark = KEPT
            else:
                refusals.append((row.email, target.source_of(contact)))
                is_new, remark = True, ENDED
        outcome = RowOutcome.CHANGED if is_new else RowOutcome.UNCHANGED
        results[row.email] = (outcome, remark)
    if changes:
        await tx.count(CHANGE_IMPORTED, contacts=changes)
    if target.list_key is not None:
        facts = [
            unsubscribe_fact(target.tenant_id, email, target.list_key, source=source, at=target.now)
            for email, source in refusals
        ]
        await apply_facts(tx, facts, target.now)
    return results, settled


def _wants_subscription(contact: ContactRow) -> bool:
    """Return whether the row may subscribe its contact: it says yes, or the file does not ask."""
    return contact.answer in (None, SubscriptionAnswer.YES)


async def _remark_suppressed(
    tx: Runner, contacts: Mapping[str, ContactRow], results: dict[str, RowResult], target: ImportTarget
) -> None:
    """Add a remark to the results of addresses that are stored but suppressed."""
    suppressed = await tx.run(
        SUPPRESSED_IMPORTED,
        contacts=[(email,) for email in contacts],
        tenant_id=target.tenant_id,
        list_key=target.list_key,
    )
    for row in suppressed:
        outcome, why = results.get(row.email, (RowOutcome.ADDED, ""))
        if why:
            continue  # The result already has a remark.
        kind = "email" if row.list_key == "*" else "bulk email"
        results[row.email] = (outcome, f"suppressed ({row.reason.replace('_', ' ')}); receives no {kind}")


async def _known_tags(tx: Runner, known: Sequence[Any]) -> dict[int, set[str]]:
    tags: dict[int, set[str]] = {}
    if known:
        for row in await tx.run(TAGS_OF_CONTACTS, contacts=[(row.id,) for row in known]):
            tags.setdefault(row.contact_key, set()).add(row.tag)
    return tags


def _change(row: Any, contact: ContactRow) -> tuple[Any, ...] | None:
    """Return the key and new values of the row, or None if nothing changes."""
    before = orjson.loads(row.attributes)
    attributes = merge_attributes(before, contact.attributes)
    after = (contact.name or row.name, contact.locale or row.locale, contact.timezone or row.timezone)
    if attributes == before and after == (row.name, row.locale, row.timezone):
        return None
    return (row.id, *after, orjson.dumps(attributes).decode())


def _remark(status: str, list_state: str | None) -> str:
    """Return the remark for the report, or an empty string."""
    if status != "active":
        return f"stays {status}"
    if list_state == UNSUBSCRIBED:
        return "unsubscribed from the list; stays unsubscribed"
    return ""
