"""Contact status and suppressions, derived from what contacts do and what providers report about them.

Facts may arrive twice, late and in any order, but the same facts always lead to the same status. Only two actions make
a contact active again: the contact resubscribes, or an operator reactivates it. The functions run in the caller's
transaction. `ContactStatusService` runs the common ones in their own transactions.
"""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from enum import StrEnum
from typing import Any, Final, assert_never

from mailwright.audience import enrolments, lists, subscription_events
from mailwright.audience.contact_fields import normalize_email
from mailwright.audience.enrolments import SuppressedAddress
from mailwright.audience.lists import GENERAL
from mailwright.audience.objections import has_objected
from mailwright.audience.pending_requests import end_pending
from mailwright.audience.suppressions import ALL_MESSAGES
from mailwright.domain.clock import DAY, SECOND, Clock, Instant
from mailwright.domain.errors import NotFound
from mailwright.domain.ids import uuid7s
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.report import ContactVerdict
from mailwright.outbox import audit_log
from mailwright.outbox.accept import insert_contacts
from mailwright.outbox.pending_erasures import refuse_erasing
from mailwright.storage.database import Database, Transaction
from mailwright.storage.hot import Runner
from mailwright.storage.statements import statement

ACTIVATE = statement(__package__, "activate")
ACTIVATE_RESUBSCRIBED = statement(__package__, "activate_resubscribed")
CHANGE_STATUS = statement(__package__, "change_status")
ERASED_CONTACTS = statement(__package__, "erased_contacts")
DELETE_UNSUBSCRIBE_RECORD = statement(__package__, "delete_unsubscribe_record")
DISCARD_SOFT_BOUNCES = statement(__package__, "discard_soft_bounces")
UNSUBSCRIBE_FROM_LISTS = statement(__package__, "unsubscribe_from_lists")
LIFT_SUPPRESSIONS = statement(__package__, "lift_suppressions")
LIFT_UNSUBSCRIBE = statement(__package__, "lift_unsubscribe")
LOCK_CONTACTS = statement(__package__, "lock_contacts")
FIND_VISIT = statement(__package__, "find_visit")
LIST_PREFERENCES = statement(__package__, "list_preferences")
RESUBSCRIBE_TO_LIST = statement(__package__, "resubscribe_to_list")
REPEATED_SOFT_BOUNCES = statement(__package__, "repeated_soft_bounces")
SUPPRESSION_SCOPES = statement(__package__, "suppression_scopes")
CONTACT_STATUS = statement(__package__, "contact_status")
SUBSCRIBE = statement(__package__, "subscribe")
SUPPRESS = statement(__package__, "suppress")


class ContactStatus(StrEnum):
    ACTIVE = "active"
    UNSUBSCRIBED = "unsubscribed"
    BOUNCED = "bounced"


class SuppressionReason(StrEnum):
    """Why an address is suppressed; `sql/suppress.sql` and `sql/lift_unsubscribe.sql` use the same values."""

    BOUNCE = "bounce"
    SOFT_BOUNCES = "soft_bounces"
    COMPLAINT = "complaint"
    UNSUBSCRIBED = "unsubscribed"


BOUNCE_REASONS: Final = (SuppressionReason.BOUNCE, SuppressionReason.SOFT_BOUNCES)

# The end reason of a contact's sequences, by the reason of the suppression.
END_REASONS: Final = {
    SuppressionReason.BOUNCE: "bounced",
    SuppressionReason.SOFT_BOUNCES: "bounced",
    SuppressionReason.COMPLAINT: "complaint",
    SuppressionReason.UNSUBSCRIBED: "unsubscribed",
}

# Decisions of the contact, which end requests to subscribe that they have not confirmed.
ENDS_REQUESTS: Final = (SuppressionReason.COMPLAINT, SuppressionReason.UNSUBSCRIBED)

# The source of unsubscribes by visitors of a link. Any later unsubscribe from the same list replaces it, because only
# the unsubscribe by a visit can be reverted; `sql/suppress.sql` uses the same value.
VISIT: Final = "visit"
# A scanner may open the same link twice in a row. A visit after this time confirms the first one.
VISITED_AGAIN: Final[Instant] = 10 * SECOND

# A status never replaces one with a higher weight; `sql/change_status.sql` has the same order.
WEIGHTS: Final = {ContactStatus.ACTIVE: 0, ContactStatus.UNSUBSCRIBED: 1, ContactStatus.BOUNCED: 2}


@dataclass(frozen=True, slots=True)
class SoftBounces:
    """The limit of soft bounces: this many within this many days count as a hard bounce."""

    count: int = 3
    days: int = 30


@dataclass(frozen=True, slots=True)
class StatusFact:
    """Something that happened to a contact, and its effect. The address is normalized."""

    tenant_id: int
    email: str
    scope: str
    reason: SuppressionReason
    source: str
    at: Instant
    status: ContactStatus | None = None  # None if the status stays, for example after an unsubscribe from one list
    bounce_type: str | None = None
    bounce_subtype: str | None = None

    @property
    def contact(self) -> tuple[int, str]:
        return self.tenant_id, self.email


def unsubscribe_fact(tenant_id: int, email: str, list_key: str, *, source: str, at: Instant) -> StatusFact:
    status = ContactStatus.UNSUBSCRIBED if list_key == GENERAL else None
    return StatusFact(tenant_id, email, list_key, SuppressionReason.UNSUBSCRIBED, source, at, status)


def bounce_fact(
    tenant_id: int,
    email: str,
    *,
    source: str,
    at: Instant,
    reason: SuppressionReason = SuppressionReason.BOUNCE,
    bounce_type: str | None = None,
    bounce_subtype: str | None = None,
) -> StatusFact:
    status = ContactStatus.BOUNCED
    return StatusFact(tenant_id, email, ALL_MESSAGES, reason, source, at, status, bounce_type, bounce_subtype)


def complaint_fact(tenant_id: int, email: str, *, source: str, at: Instant) -> StatusFact:
    return StatusFact(
        tenant_id, email, ALL_MESSAGES, SuppressionReason.COMPLAINT, source, at, ContactStatus.UNSUBSCRIBED
    )


def verdict_fact(
    verdict: ContactVerdict,
    tenant_id: int,
    email: str,
    *,
    source: str,
    at: Instant,
    bounce_type: str | None,
    bounce_subtype: str | None,
) -> StatusFact | None:
    """Return the fact that a report establishes about its contact. Soft bounces are counted separately."""
    match verdict:
        case ContactVerdict.NOTHING | ContactVerdict.SOFT_BOUNCE:
            return None
        case ContactVerdict.HARD_BOUNCE:
            return bounce_fact(
                tenant_id, email, source=source, at=at, bounce_type=bounce_type, bounce_subtype=bounce_subtype
            )
        case ContactVerdict.COMPLAINT:
            return complaint_fact(tenant_id, email, source=source, at=at)
        case ContactVerdict.UNSUBSCRIBE:
            return unsubscribe_fact(tenant_id, email, GENERAL, source=source, at=at)
        case _:
            assert_never(verdict)


async def apply_facts(tx: Runner, facts: Sequence[StatusFact], now: Instant) -> None:
    """Apply facts. Addresses that are unknown are stored as contacts first.

    For an erased contact, store only suppressions of all messages.
    """
    erased = await _lock_or_create(tx, {fact.contact for fact in facts}, now)
    facts = [fact for fact in facts if fact.contact not in erased or fact.scope == ALL_MESSAGES]
    if not facts:
        return
    if statuses := _heaviest(facts):
        await tx.count(CHANGE_STATUS, facts=[_status_row(fact) for fact in statuses])
    first = _decisive(facts)
    await tx.count(SUPPRESS, facts=[_suppression_row(fact) for fact in first])
    await end_pending(tx, [_unsubscribe_row(fact) for fact in facts if fact.reason in ENDS_REQUESTS], now)
    if of_lists := [_unsubscribe_row(fact) for fact in first if fact.scope != ALL_MESSAGES]:
        await tx.count(UNSUBSCRIBE_FROM_LISTS, facts=of_lists)
    ended = [SuppressedAddress(*fact.contact, fact.scope, END_REASONS[fact.reason]) for fact in first]
    await enrolments.end_suppressed(tx, ended, now)


async def repeated_soft_bounces(
    tx: Runner, bounces: Iterable[tuple[int, str, Instant]], soft: SoftBounces
) -> list[StatusFact]:
    """Return facts for contacts whose stored soft bounces reach the limit.

    `bounces` has the tenant, address and time of each bounce that was just stored. Only periods that contain one of
    these count.
    """
    rows = await tx.run(
        REPEATED_SOFT_BOUNCES,
        bounces=[{**_contact_row((tenant_id, email)), "at": at} for tenant_id, email, at in sorted(set(bounces))],
        enough=soft.count,
        within=soft.days * DAY,
    )
    return [
        bounce_fact(
            row.tenant_id,
            row.email,
            source="reports",
            at=at,
            reason=SuppressionReason.SOFT_BOUNCES,
            bounce_type="soft",
            bounce_subtype="repeated",
        )
        for row in rows
        # The suppression gets the time when the limit was first reached, the status the time when it was last reached.
        for at in (row.first_at, row.last_at)
    ]


async def unsubscribe(tx: Runner, tenant_id: int, email: str, list_key: str, *, source: str, now: Instant) -> None:
    """Unsubscribe from one list, or with `general` from all bulk email. A repeat only updates the status time."""
    await apply_facts(tx, [unsubscribe_fact(tenant_id, normalize_email(email), list_key, source=source, at=now)], now)


async def resubscribe(tx: Runner, tenant_id: int, email: str, list_key: str, *, source: str, now: Instant) -> None:
    """Undo only an unsubscribe. A bounce, a complaint or an operator's suppression stays."""
    contact = _contact_row((tenant_id, normalize_email(email)))
    await tx.run(LOCK_CONTACTS, contacts=[contact])
    await refuse_erasing(tx, tenant_id, [contact["email"]])
    await tx.count(LIFT_UNSUBSCRIBE, contacts=[contact], list_key=list_key)
    joined = await _lift_list_unsubscribe(tx, contact, list_key, source=source)
    if list_key == GENERAL:
        await tx.count(ACTIVATE_RESUBSCRIBED, **contact, source=source, now=now)
    elif joined:
        await enrolments.enrol_subscribers(tx, tenant_id, [contact["email"]], list_key, now=now)


async def _lift_list_unsubscribe(tx: Runner, contact: dict[str, Any], list_key: str, *, source: str) -> int:
    """Undo the unsubscribe in the subscription to a list; return 1 if the contact is subscribed again."""
    joined = await tx.count(RESUBSCRIBE_TO_LIST, **contact, list_key=list_key, source=source)
    await tx.count(DELETE_UNSUBSCRIBE_RECORD, **contact, list_key=list_key)
    return joined


async def subscribe(
    tx: Runner, tenant_id: int, emails: Iterable[str], list_key: str, *, source: str, now: Instant
) -> int:
    """Subscribe addresses to a list, even after an unsubscribe from it, and return the number of new subscriptions.

    A contact who unsubscribed from all bulk email, bounced or complained still receives nothing.
    """
    addresses = {(tenant_id, normalize_email(email)) for email in emails}
    if not addresses:
        return 0
    await ensure_contacts(tx, addresses, now)
    await refuse_erasing(tx, tenant_id, [email for _, email in addresses])
    if list_key == GENERAL:  # It stands for all bulk email, so this also undoes an unsubscribe from everything.
        for _, email in sorted(addresses):
            await resubscribe(tx, tenant_id, email, GENERAL, source=source, now=now)
    rows = [
        {**_contact_row(contact), "list_key": list_key, "at": now, "source": source} for contact in sorted(addresses)
    ]
    subscribed = await tx.count(SUBSCRIBE, contacts=rows)
    await tx.count(LIFT_UNSUBSCRIBE, contacts=rows, list_key=list_key)
    if subscribed:
        emails = [email for _, email in addresses]
        await enrolments.enrol_subscribers(tx, tenant_id, emails, list_key, now=now, since=now)
    return subscribed


async def lift_objection(tx: Runner, tenant_id: int, email: str, *, source: str, now: Instant) -> None:
    """Undo the unsubscribe from all bulk email by an imported file, because the contact has agreed since."""
    if await has_objected(tx, tenant_id, email, GENERAL):
        await resubscribe(tx, tenant_id, email, GENERAL, source=source, now=now)


async def activate(tx: Runner, tenant_id: int, email: str, *, source: str, now: Instant) -> None:
    """Reactivate a contact by decision of an operator. Unsubscribes from single lists stay."""
    contact = _contact_row((tenant_id, normalize_email(email)))
    if not await tx.count(ACTIVATE, **contact, source=source, now=now):
        raise NotFound("There is no such contact.")
    await refuse_erasing(tx, tenant_id, [contact["email"]])
    await tx.count(LIFT_SUPPRESSIONS, **contact)
    await _lift_list_unsubscribe(tx, contact, GENERAL, source=source)
    await tx.count(DISCARD_SOFT_BOUNCES, **contact)


@dataclass(frozen=True, slots=True)
class ListPreference:
    """A list, with one contact's subscription to it."""

    list_key: str
    name: str
    description: str | None
    is_public: bool
    is_subscribed: bool
    has_unsubscribed: bool


@dataclass(frozen=True, slots=True)
class ContactPreferences:
    """The preferences of a contact: their status, suppressions, and the lists they can choose."""

    email: str
    status: ContactStatus
    locale: str | None
    scopes: Mapping[str, str]  # suppressed scopes with their reasons
    lists: tuple[ListPreference, ...]
    consents_to_tracking: bool | None = None
    snoozed_until: Instant | None = None  # a time in the past is a pause that has ended

    @property
    def subscription_state(self) -> subscription_events.SubscriptionState:
        unsubscribed = {entry.list_key for entry in self.lists if entry.has_unsubscribed}
        subscribed = frozenset(entry.list_key for entry in self.lists if entry.is_subscribed)
        return subscription_events.SubscriptionState(
            subscribed, frozenset(unsubscribed | self.scopes.keys()) - {ALL_MESSAGES}
        )


async def load_preferences(tx: Runner, tenant_id: int, email: str) -> ContactPreferences:
    """Load the preferences of an address. An unknown address gets defaults, so the page does not reveal contacts."""
    contact = _contact_row((tenant_id, normalize_email(email)))
    known = await tx.run(CONTACT_STATUS, **contact)
    scopes = {row.list_key: row.reason for row in await tx.run(SUPPRESSION_SCOPES, **contact)}
    states = tuple([_list_preference(row) for row in await tx.run(LIST_PREFERENCES, **contact)])
    if not known:
        return ContactPreferences(contact["email"], ContactStatus.ACTIVE, None, scopes, states)
    [row] = known
    consents = None if row.consents_to_tracking is None else bool(row.consents_to_tracking)
    return ContactPreferences(
        contact["email"], ContactStatus(row.status), row.locale, scopes, states, consents, row.snoozed_until
    )


async def lock_contact(tx: Runner, tenant_id: int, email: str, now: Instant) -> None:
    """Lock a contact until the transaction ends, so that nobody changes the data that the transaction reads.

    An unknown address is stored as a contact. An erased contact has no row to lock.
    """
    await _lock_or_create(tx, {(tenant_id, normalize_email(email))}, now)


async def lock_known_contacts(tx: Runner, addresses: Iterable[tuple[int, str]]) -> set[tuple[int, str]]:
    """Lock the addresses that are contacts until the transaction ends, and return them."""
    rows = [_contact_row(contact) for contact in sorted(addresses)]
    return {(row.tenant_id, row.email) for row in await tx.run(LOCK_CONTACTS, contacts=rows)} if rows else set()


async def ensure_contacts(tx: Runner, addresses: Iterable[tuple[int, str]], now: Instant) -> None:
    """Create missing contacts, including erased ones, and lock all of them until the transaction ends."""
    rows = [_contact_row(contact) for contact in sorted(addresses)]
    if not rows:
        return
    ids = uuid7s(now, len(rows))
    contacts = [{**row, "contact_id": contact_id, "name": None} for row, contact_id in zip(rows, ids, strict=True)]
    await insert_contacts(tx, contacts, now)
    await tx.run(LOCK_CONTACTS, contacts=rows)


@asynccontextmanager
async def recording_subscription_events(
    tx: Runner,
    tenant_id: int,
    email: str,
    *,
    source: str,
    now: Instant,
    message_id: str | None = None,
    visited_list: str | None = None,
) -> AsyncIterator[None]:
    """Publish the contact's own subscriptions and unsubscribes inside the block as events.

    An unsubscribe is attributed to the message whose link the contact used. `visited_list` is the list of the link, if
    opening the link was enough.
    """
    await lock_contact(tx, tenant_id, email, now)
    before = await load_preferences(tx, tenant_id, email)
    yield
    after = await load_preferences(tx, tenant_id, email)
    await subscription_events.record_changes(
        tx,
        tenant_id,
        after.email,
        before.subscription_state,
        after.subscription_state,
        source=source,
        now=now,
        message_id=message_id,
        visited_list=visited_list,
    )


async def unsubscribe_visitor(
    tx: Runner, tenant_id: int, email: str, list_key: str, *, source: str, message_id: str | None, now: Instant
) -> None:
    """Unsubscribe the visitor of a link, until the visit turns out to be a machine's. A second visit confirms it."""
    async with recording_subscription_events(
        tx, tenant_id, email, source=source, now=now, message_id=message_id, visited_list=list_key
    ):
        visited_at = await _find_visit(tx, tenant_id, email, list_key)
        is_confirmed = visited_at is not None and now - visited_at > VISITED_AGAIN
        # A visit that turns out to be a machine's must not undo the no of an imported file.
        is_confirmed = is_confirmed or await has_objected(tx, tenant_id, email, list_key)
        await unsubscribe(tx, tenant_id, email, list_key, source=source if is_confirmed else VISIT, now=now)


async def revert_visit(tx: Runner, tenant_id: int, email: str, list_key: str, *, at: Instant, now: Instant) -> None:
    """Undo the unsubscribe by a visit at this time, unless the contact or an operator has confirmed it since."""
    contact = (tenant_id, email)
    if contact not in await lock_known_contacts(tx, [contact]) or await find_erased(tx, [contact]):
        return
    if await _find_visit(tx, tenant_id, email, list_key) == at:
        async with recording_subscription_events(tx, tenant_id, email, source=VISIT, now=now):
            await resubscribe(tx, tenant_id, email, list_key, source=VISIT, now=now)


async def _find_visit(tx: Runner, tenant_id: int, email: str, list_key: str) -> Instant | None:
    rows = await tx.run(FIND_VISIT, **_contact_row((tenant_id, normalize_email(email))), list_key=list_key)
    return rows[0].created_at if rows else None


async def record_audit_entry(
    tx: Transaction,
    now: Instant,
    tenant_id: int,
    email: str,
    *,
    actor: str | None,
    action: str,
    list_key: str | None = None,
) -> None:
    """Record an action of a named actor in the audit log."""
    if actor is not None:
        subject, detail = normalize_email(email), {} if list_key is None else {"listKey": list_key}
        await audit_log.record(tx, now, actor=actor, action=action, subject=subject, tenant_id=tenant_id, detail=detail)


class ContactStatusService:
    """Changes the status of contacts. Each method runs in its own transaction."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def unsubscribe_by_link(
        self, tenant_id: int, email: str, list_key: str = GENERAL, *, source: str, message_id: str | None = None
    ) -> None:
        """Unsubscribe through a link in an email or the one-click header, even if the list no longer exists."""
        now = self._clock.now()

        async def work(tx: Runner) -> None:
            async with recording_subscription_events(
                tx, tenant_id, email, source=source, now=now, message_id=message_id
            ):
                await unsubscribe(tx, tenant_id, email, list_key, source=source, now=now)

        await self._database.transact(work)

    async def resubscribe_by_link(self, tenant_id: int, email: str, list_key: str = GENERAL, *, source: str) -> None:
        """Undo an unsubscribe, through the link on the confirmation page."""
        now = self._clock.now()

        async def work(tx: Runner) -> None:
            async with recording_subscription_events(tx, tenant_id, email, source=source, now=now):
                await resubscribe(tx, tenant_id, email, list_key, source=source, now=now)

        await self._database.transact(work)

    async def subscribe(
        self, tenant_id: int, email: str, list_key: str, *, source: str, actor: str | None = None
    ) -> bool:
        """Subscribe a contact. Return True if it is a new subscription. An `actor` is recorded in the audit log."""
        now = self._clock.now()
        async with self._database.write() as tx:
            await lists.require(tx, tenant_id, list_key)
            await lift_objection(tx, tenant_id, email, source=source, now=now)
            is_new = bool(await subscribe(tx, tenant_id, [email], list_key, source=source, now=now))
            await record_audit_entry(
                tx, now, tenant_id, email, actor=actor, action="contact.subscribe", list_key=list_key
            )
        return is_new

    async def unsubscribe(
        self, tenant_id: int, email: str, list_key: str, *, source: str, actor: str | None = None
    ) -> None:
        """Unsubscribe a contact from a list that must exist. An `actor` is recorded in the audit log."""
        async with self._database.write() as tx:
            await lists.require(tx, tenant_id, list_key)
            now = self._clock.now()
            await unsubscribe(tx, tenant_id, email, list_key, source=source, now=now)
            await record_audit_entry(
                tx, now, tenant_id, email, actor=actor, action="contact.unsubscribe", list_key=list_key
            )

    async def bounce(
        self,
        tenant_id: int,
        email: str,
        *,
        source: str,
        bounce_type: str | None = None,
        bounce_subtype: str | None = None,
    ) -> None:
        now = self._clock.now()
        fact = bounce_fact(
            tenant_id,
            normalize_email(email),
            source=source,
            at=now,
            bounce_type=bounce_type,
            bounce_subtype=bounce_subtype,
        )
        await self._database.transact(lambda tx: apply_facts(tx, [fact], now))

    async def complain(self, tenant_id: int, email: str, *, source: str) -> None:
        now = self._clock.now()
        fact = complaint_fact(tenant_id, normalize_email(email), source=source, at=now)
        await self._database.transact(lambda tx: apply_facts(tx, [fact], now))

    async def activate(self, tenant_id: int, email: str, *, source: str, actor: str | None = None) -> None:
        """Reactivate a contact. An `actor` is recorded in the audit log."""
        now = self._clock.now()
        async with self._database.write() as tx:
            await activate(tx, tenant_id, email, source=source, now=now)
            await record_audit_entry(tx, now, tenant_id, email, actor=actor, action="contact.activate")

    async def load_preferences(self, tenant_id: int, email: str) -> ContactPreferences:
        async with self._database.read() as tx:
            return await load_preferences(tx, tenant_id, email)


async def _lock_or_create(tx: Runner, addresses: set[tuple[int, str]], now: Instant) -> set[tuple[int, str]]:
    """Lock the contacts, create unknown ones, and return the addresses that were erased.

    Known contacts are locked first. Otherwise a contact whose erasure is still running would be stored again.
    """
    unknown = addresses - await lock_known_contacts(tx, addresses)
    erased = await find_erased(tx, unknown)
    await ensure_contacts(tx, unknown - erased, now)
    return erased


async def find_erased(tx: Runner, addresses: Iterable[tuple[int, str]]) -> set[tuple[int, str]]:
    """Return the pairs of tenant and address that are being erased, or were erased and have not subscribed again."""
    rows = [_contact_row(contact) for contact in sorted(addresses)]
    return {(row.tenant_id, row.email) for row in await tx.run(ERASED_CONTACTS, contacts=rows)} if rows else set()


def _heaviest(facts: Iterable[StatusFact]) -> list[StatusFact]:
    """Keep one fact per contact, because a statement can change a row only once."""
    found: dict[tuple[int, str], StatusFact] = {}
    for fact in facts:
        if fact.status is None:
            continue
        other = found.get(fact.contact)
        if other is None or other.status is None or _weight(fact) >= _weight(other):
            found[fact.contact] = fact
    return list(found.values())


def _weight(fact: StatusFact) -> tuple[int, Instant]:
    return (WEIGHTS[fact.status] if fact.status else -1), fact.at


def _decisive(facts: Iterable[StatusFact]) -> list[StatusFact]:
    """Keep one fact per suppression, in the order of `sql/suppress.sql`."""
    found: dict[tuple[int, str, str], StatusFact] = {}
    for fact in facts:
        key = (*fact.contact, fact.scope)
        if key not in found or _precedence(fact) < _precedence(found[key]):
            found[key] = fact
    return list(found.values())


def _precedence(fact: StatusFact) -> tuple[bool, Instant, str]:
    return fact.reason in BOUNCE_REASONS, fact.at, fact.reason


def _contact_row(contact: tuple[int, str]) -> dict[str, Any]:
    return {"tenant_id": contact[0], "email": contact[1]}


def _status_row(fact: StatusFact) -> dict[str, Any]:
    return {
        **_contact_row(fact.contact),
        "status": fact.status,
        "weight": _weight(fact)[0],
        "at": fact.at,
        "source": fact.source,
        "bounce_type": fact.bounce_type,
        "bounce_subtype": fact.bounce_subtype,
    }


def _suppression_row(fact: StatusFact) -> dict[str, Any]:
    return {**_unsubscribe_row(fact), "reason": fact.reason}


def _unsubscribe_row(fact: StatusFact) -> dict[str, Any]:
    return {**_contact_row(fact.contact), "list_key": fact.scope, "at": fact.at, "source": fact.source}


def _list_preference(row: Any) -> ListPreference:
    has_unsubscribed = row.unsubscribed_at is not None or bool(row.is_suppressed)
    is_subscribed = row.subscribed_at is not None and not has_unsubscribed
    return ListPreference(row.list_key, row.name, row.description, bool(row.is_public), is_subscribed, has_unsubscribed)
