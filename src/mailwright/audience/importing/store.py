"""Store a batch of rows as contacts in one transaction. An import never reactivates or resubscribes a contact.

New contacts are added. Known contacts get the values of the file, and are subscribed only if they never were before.
Their status, suppressions and unsubscribes stay as they are. A no is stored as an unsubscribe, so that later imports
respect it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from typing import Any, Final

import orjson

from mailwright.audience.contact_fields import merge_attributes
from mailwright.audience.enrolments import enrol_subscribers
from mailwright.audience.importing.rows import ContactRow
from mailwright.audience.importing.subscription_answers import SubscriptionAnswer
from mailwright.audience.legal_basis import LegalBasisRecord
from mailwright.audience.objections import Objection, find_objections
from mailwright.audience.status import apply_facts, unsubscribe_fact
from mailwright.audience.tracking_consent import REFUSED
from mailwright.domain.clock import Instant
from mailwright.domain.ids import uuid7s
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.unsubscribe_tokens import GENERAL
from mailwright.outbox.audit_log import IMPORT, record_entries
from mailwright.outbox.pending_erasures import find_erasing
from mailwright.storage.hot import Runner
from mailwright.storage.statements import statement

_PACKAGE = "mailwright.audience"

ADD_IMPORTED = statement(_PACKAGE, "add_imported")
ASK_IMPORTED = statement(_PACKAGE, "ask_imported")
CHANGE_IMPORTED = statement(_PACKAGE, "change_imported")
END_LEGAL_BASIS = statement(_PACKAGE, "end_legal_basis")
ERASED_IMPORTED = statement(_PACKAGE, "erased_imported")
SUBSCRIBED_ANYWHERE = statement(_PACKAGE, "subscribed_anywhere")
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
    asks: bool = False  # whether contacts who have not agreed are asked to confirm by email
    is_confirmed: bool = True  # a yes, or a file without answers, subscribes; otherwise these contacts are asked, too

    def source_of(self, contact: ContactRow) -> str:
        """Return the record of a subscription: the import and, if the file asks, its file, line, column and answer."""
        return f"{self.source} ({self.file_name}, {contact.proof})" if contact.proof else self.source


ERASED: Final = "erased on request; only the contact can subscribe again"
ERASING: Final = "is being erased on request, which is not finished"
DELETED: Final = "the contact was deleted and stays deleted"
ENDED: Final = "unsubscribed from the list"
ENDED_ALL: Final = "unsubscribed from all bulk email"
KEPT: Final = "stays subscribed, as chosen for this import"
KEPT_PENDING: Final = "may still confirm, as chosen for this import"
NO_LONGER_ASKED: Final = "can no longer confirm with an earlier email"
SAID_NO: Final = "said no before ({proof}); stays unsubscribed"
SAID_NO_ELSEWHERE: Final = "not subscribed, because they said no to the list {list_key} before ({proof})"
ASKED: Final = "gets a confirmation email"
REPEATED: Final = "the same address as on an earlier line"
RowResult = tuple[RowOutcome, str]
_ADDED: Final[RowResult] = (RowOutcome.ADDED, "")


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The results of a batch by address (an address without a result was added), and its numbers by column."""

    rows: dict[str, RowResult] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)


# The columns of the numbers, by the answer that they count.
_COUNTS: Final = {
    SubscriptionAnswer.NO: "said_no",
    SubscriptionAnswer.EMPTY: "unanswered",
    SubscriptionAnswer.UNREADABLE: "unreadable",
}
ANSWER_COUNTS: Final = ("subscribed", "asked", *_COUNTS.values())

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
) -> BatchResult:
    """Store a batch."""
    if not contacts:
        return BatchResult()
    counts = Counter(_COUNTS[contact.answer] for contact in contacts.values() if contact.answer in _COUNTS)
    ids = uuid7s(target.now, len(stored))
    rows = [(contact_id, *values) for contact_id, values in zip(ids, stored, strict=True)]
    added = await tx.count(ADD_IMPORTED, contacts=rows, tenant_id=target.tenant_id, erasure=ERASURE, now=target.now)
    results: dict[str, RowResult] = {}
    settled: set[str] = set()
    asked_again: set[str] = set()
    if added < len(contacts):
        results, settled, asked_again = await _update_known(tx, contacts, rows, added, target)
    await _remark_suppressed(tx, contacts, results, target)
    tagged = [
        (email, tag)
        for email, contact in contacts.items()
        if contact.tags and (email not in results or results[email][0] is not RowOutcome.REFUSED)
        for tag in contact.tags
    ]
    if tagged:
        await tx.count(TAG_IMPORTED, tags=tagged, tenant_id=target.tenant_id)
    await _record_objections(tx, contacts, results, settled, target)
    agreed = {
        email: target.source_of(contact)
        for email, contact in contacts.items()
        if _wants_subscription(contact) and target.is_confirmed and email not in settled | asked_again
    }
    counts["subscribed"] = await _subscribe(tx, agreed, target)
    unclear = {
        email: target.source_of(contact)
        for email, contact in contacts.items()
        if contact.answer is not SubscriptionAnswer.NO and email not in settled and email not in agreed
    }
    counts["asked"] = await _mark_for_confirmation(tx, unclear, results, target)
    await _record_legal_basis(tx, contacts, results, target)
    await _record_consents(tx, contacts, results, target)
    return BatchResult(results, counts)


async def _subscribe(tx: Runner, sources: Mapping[str, str], target: ImportTarget) -> int:
    """Subscribe addresses, each with its source, and return how many were not subscribed before."""
    if not sources or target.list_key is None:
        return 0
    rows = list(sources.items())
    subscribed = await tx.count(
        SUBSCRIBE_IMPORTED, contacts=rows, tenant_id=target.tenant_id, list_key=target.list_key, now=target.now
    )
    if target.starts_sequences:
        await enrol_subscribers(tx, target.tenant_id, list(sources), target.list_key, now=target.now)
    return subscribed


async def _mark_for_confirmation(
    tx: Runner, sources: Mapping[str, str], results: dict[str, RowResult], target: ImportTarget
) -> int:
    """Mark the contacts who get a confirmation email after the rows are stored, and return their number."""
    if not sources or not target.asks or target.list_key is None:
        return 0
    rows = list(sources.items())
    place = {"tenant_id": target.tenant_id, "list_key": target.list_key}
    asked = await tx.run(ASK_IMPORTED, contacts=rows, **place)
    for row in asked:
        outcome, why = results.get(row.email, _ADDED)
        outcome = RowOutcome.CHANGED if outcome is RowOutcome.UNCHANGED else outcome
        results[row.email] = (outcome, "; ".join(filter(None, (why, ASKED))))
    return len(asked)


async def _record_objections(
    tx: Runner,
    contacts: Mapping[str, ContactRow],
    results: dict[str, RowResult],
    settled: set[str],
    target: ImportTarget,
) -> None:
    """Store each no as an unsubscribe from the list or, for an import without a list, from all bulk email.

    A no without a list also ends every current subscription and the legal basis, so that they do not come back when the
    contact joins one list later.
    """
    said_no = [
        email for email, contact in contacts.items() if contact.answer is SubscriptionAnswer.NO and email not in settled
    ]
    if not said_no:
        return
    ended = [(email, target.list_key or GENERAL) for email in said_no]
    if target.list_key is None:
        rows = await tx.run(SUBSCRIBED_ANYWHERE, contacts=[(email,) for email in said_no], tenant_id=target.tenant_id)
        remark = KEPT if target.keeps_subscriptions else ENDED_ALL
        subscribers = {row.email for row in rows}
        for email in subscribers:
            outcome = results.get(email, _ADDED)[0]
            results[email] = (outcome, remark)
        if target.keeps_subscriptions:
            ended = [(email, list_key) for email, list_key in ended if email not in subscribers]
        else:
            ended += [(row.email, row.list_key) for row in rows]
        without_basis = [(email,) for email, list_key in ended if list_key == GENERAL]
        if without_basis:
            ended_bases = await tx.run(END_LEGAL_BASIS, contacts=without_basis, tenant_id=target.tenant_id)
            entries = [(row.email, {"source": target.source_of(contacts[row.email])}) for row in ended_bases]
            await record_entries(
                tx,
                target.now,
                entries,
                actor=IMPORT,
                action="contact.end_legal_basis",
                tenant_id=target.tenant_id,
            )
    facts = [
        unsubscribe_fact(
            target.tenant_id,
            email,
            list_key,
            source=target.source_of(contacts[email]),
            at=target.now,
        )
        for email, list_key in ended
    ]
    await apply_facts(tx, facts, target.now)


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
) -> tuple[dict[str, RowResult], set[str], set[str]]:
    """Update known contacts.

    Return their results, the addresses whose subscription must not change, and those who said no before and yes now.
    """
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
    objections = await find_objections(tx, target.tenant_id, [row.email for row in known])
    changes = []
    asked_again: set[str] = set()
    for row in known:
        contact = contacts[row.email]
        if row.deleted_at is not None:
            is_erasing = (target.tenant_id, row.email) in erasing
            results[row.email] = (RowOutcome.REFUSED, ERASING if is_erasing else DELETED)
            settled.add(row.email)
            continue
        change = _change(row, contact)
        if change is not None:
            changes.append(change)
        said_no = _earlier_no(row, contact, objections.get(row.email, ()), target)
        wants = _wants_subscription(contact) and said_no is None
        becomes_subscribed = not row.listed or (row.listed == PENDING and target.is_confirmed)
        is_subscribed = target.list_key is not None and becomes_subscribed and wants
        is_new = change is not None or is_subscribed or not tags.get(row.id, set()).issuperset(contact.tags)
        is_new = is_new or (target.legal_basis is not None and wants and row.legal_basis != target.legal_basis.basis)
        remark = _remark(row.status, row.listed) if said_no is None else said_no
        says_no = contact.answer is SubscriptionAnswer.NO
        is_on_list = row.listed in (SUBSCRIBED, PENDING)
        if said_no is not None and contact.answer is SubscriptionAnswer.YES and target.asks:
            asked_again.add(row.email)
        elif says_no and is_on_list and _keeps_subscription(row, target):
            settled.add(row.email)
            remark = KEPT if row.listed == SUBSCRIBED else KEPT_PENDING
        elif says_no and row.is_asked:
            is_new, remark = True, NO_LONGER_ASKED
        elif said_no is not None or row.listed == UNSUBSCRIBED or (row.listed == SUBSCRIBED and not says_no):
            settled.add(row.email)
        elif says_no:
            is_new, remark = True, ENDED if is_on_list else remark
        results[row.email] = (RowOutcome.CHANGED if is_new else RowOutcome.UNCHANGED, remark)
    if changes:
        await tx.count(CHANGE_IMPORTED, contacts=changes)
    return results, settled, asked_again


def _keeps_subscription(row: Any, target: ImportTarget) -> bool:
    """Return whether a no leaves the subscription. One that an earlier row of the same file made always ends."""
    return target.keeps_subscriptions and not str(row.listed_by).startswith(target.source)


def _earlier_no(row: Any, contact: ContactRow, objections: Sequence[Objection], target: ImportTarget) -> str | None:
    """Return the remark about an earlier file that says no, or None if this file may subscribe the contact.

    A no counts for its list whatever a later file says, and for other lists unless the file says yes for them.
    """
    for each in objections:
        if each.applies_to(target.list_key):
            return SAID_NO.format(proof=each.proof)
    if objections and row.listed is None and contact.answer is None and target.list_key is not None:
        return _said_no_elsewhere(objections)
    return None


def _said_no_elsewhere(objections: Sequence[Objection]) -> str:
    return SAID_NO_ELSEWHERE.format(list_key=objections[0].list_key, proof=objections[0].proof)


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
        results[row.email] = (outcome, _suppressed_text(row))


def _suppressed_text(row: Any) -> str:
    kind = "email" if row.list_key == "*" else "bulk email"
    return f"suppressed ({row.reason.replace('_', ' ')}); receives no {kind}"


async def find_blocked(
    tx: Runner, tenant_id: int, list_key: str | None, emails: Sequence[str], *, has_answers: bool
) -> dict[str, str]:
    """Return which of these addresses an import does not subscribe although the file agrees, with the reasons."""
    suppressed = await tx.run(
        SUPPRESSED_IMPORTED, contacts=[(email,) for email in emails], tenant_id=tenant_id, list_key=list_key
    )
    blocked = {row.email: _suppressed_text(row) for row in suppressed}
    for email, objections in (await find_objections(tx, tenant_id, emails)).items():
        if email not in blocked and not has_answers:
            blocked[email] = _said_no_elsewhere(objections)
        elif own := [each for each in objections if each.applies_to(list_key)]:
            blocked[email] = SAID_NO.format(proof=own[0].proof)
    return blocked


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
